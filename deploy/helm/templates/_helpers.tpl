{{/* Names and labels. `part` is api, worker, server, migrate or postgres. */}}
{{- define "dsh.name" -}}
{{ .root.Release.Name }}-{{ .part }}
{{- end }}

{{- define "dsh.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "dsh.labels" -}}
{{ include "dsh.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* Our image, by digest and by nothing else. */}}
{{- define "dsh.image" -}}
{{- $repository := required "image.repository: name the registry that you pushed the image to" .Values.image.repository -}}
{{- $digest := required "image.digest: give the image's sha256 digest; tags are not taken" .Values.image.digest -}}
{{ $repository }}@{{ $digest }}
{{- end }}

{{/* What every pod of ours has: no root, no privileges, no token, a read-only file system. */}}
{{- define "dsh.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dsh.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "dsh.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .from.name }}
      key: {{ .from.key }}
{{- end }}

{{/* What gateway processes need to reach the database and the knowledge server. */}}
{{- define "dsh.gatewayEnv" -}}
{{ include "dsh.secretEnv" (dict "name" "DSH_GATEWAY_DATABASE_URL" "from" .Values.secrets.database) }}
{{ include "dsh.secretEnv" (dict "name" "DSH_GATEWAY_SERVER_KEY" "from" .Values.secrets.serverKey) }}
{{- end }}

{{- define "dsh.gatewayArgs" -}}
- --database-url-env=DSH_GATEWAY_DATABASE_URL
- --server-url=http://{{ include "dsh.name" (dict "root" . "part" "server") }}:9621
- --server-key-env=DSH_GATEWAY_SERVER_KEY
{{- end }}
