// Runs inside the DeepSeek Harness: the tools of `dsh-lightrag mcp` under their own names.
//
// One child process, one JSON-RPC message per line each way (the Model Context Protocol). What a
// tool does, checks and says is the child's; this file carries it. Node's own modules alone.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';

export const name = 'dsh-lightrag';
export const inject = ['tools'];

const PROTOCOL = '2025-11-25';
const START_MS = 60_000;
// Above the largest budget that a call can have.
const CALL_MS = 310_000;
// What the harness itself keeps from the processes that it starts.
const WITHHELD = /KEY|PASSWORD|SECRET|TOKEN|^DSH_/i;

/**
 * Start the child and register its tools.
 * @param ctx - the harness's context; `tools` is all that is asked of it.
 * @param config - command, args, env and toolCallTimeoutMs, as `dsh-lightrag dsh-patch` prints them.
 * @throws when the child does not start: the row then stays inactive and the harness tells why.
 */
export async function apply(ctx, config) {
  const keeper = new Keeper(config);
  ctx.effect(() => () => keeper.end(), `${name}.process`);
  const { tools } = await (await keeper.running()).request('tools/list', {}, START_MS);
  const timeoutMs = config.toolCallTimeoutMs ?? CALL_MS;
  for (const tool of tools) ctx.tools.register(definition(tool, keeper, timeoutMs));
}

/** A tool as the registry takes it: text for the model, structure for programs. */
function definition(tool, keeper, timeoutMs) {
  const told = new WeakMap();
  const render = (value) => [{ type: 'text', text: JSON.stringify(value) }];
  // The text is ours as long as nobody in between replaced the result.
  const project = (execution, result) => {
    const mine = told.get(execution);
    told.delete(execution);
    const untouched = mine && !result.isError && isDeepStrictEqual(result.content, render(mine.value));
    return untouched ? [{ type: 'text', text: mine.text }] : undefined;
  };
  return {
    name: tool.name,
    description: tool.description,
    parameters: tool.inputSchema,
    output: { schema: tool.outputSchema, render: (_arguments, value) => render(value) },
    isConcurrencySafe: () => tool.annotations?.readOnlyHint === true,
    async execute(given, execution) {
      const child = await keeper.running();
      const call = { name: tool.name, arguments: given ?? {} };
      const result = await child.request('tools/call', call, timeoutMs, execution.signal);
      const text = result.content.map((block) => block.text).join('\n');
      if (result.isError) throw new Error(text);
      told.set(execution, { text, value: result.structuredContent });
      return result.structuredContent;
    },
    projectContent: project,
    finalizeContent: project, // where harnesses before 0.2 look for it
  };
}

/** Keeps one child running: whoever calls after it ended starts the next. */
class Keeper {
  #config;
  #child;
  #ended = false;

  constructor(config) {
    this.#config = config;
  }

  /** Return a child that has shaken hands; callers at the same time share it. */
  async running() {
    if (this.#ended) throw new Error(`${name}: the plugin was unloaded.`);
    if (!this.#child || this.#child.gone) this.#child = new Child(this.#config);
    const child = this.#child;
    await child.ready;
    return child;
  }

  end() {
    this.#ended = true;
    this.#child?.end();
  }
}

/** One life of the process, from its start to its end. */
class Child {
  gone = false;
  #process;
  #waiting = new Map();
  #lastId = 0;

  constructor({ command, args, env }) {
    const inherited = Object.entries(process.env).filter(([key]) => !WITHHELD.test(key));
    this.#process = spawn(command, args, {
      env: { ...Object.fromEntries(inherited), ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
      windowsHide: true,
    });
    this.#process.on('error', (error) => this.#down(error.message));
    // Not at `exit`: an answer may still be in the pipe.
    this.#process.on('close', (code, signal) => this.#down(signal ?? `status ${code}`));
    this.#process.stdin.on('error', () => {}); // `close` tells it
    createInterface({ input: this.#process.stdout }).on('line', (line) => this.#receive(line));
    this.ready = this.#shakeHands();
  }

  /**
   * Ask, and wait for the answer.
   * @throws when the answer is an error, the time runs out, the signal aborts or the process ends.
   */
  request(method, params, timeoutMs, signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const id = ++this.#lastId;
      const settle = (how, value) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.#waiting.delete(id);
        how(value);
      };
      const cancel = (reason, error) => {
        this.#send({ method: 'notifications/cancelled', params: { requestId: id, reason } });
        settle(reject, error);
      };
      const abort = () => cancel('aborted', signal.reason);
      const late = () => cancel('timeout', new Error(overdue(timeoutMs)));
      const timer = setTimeout(late, timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiting.set(id, {
        resolve: (value) => settle(resolve, value),
        reject: (error) => settle(reject, error),
      });
      this.#send({ id, method, params });
    });
  }

  /** End it: a closed stdin asks it to, and the signal does not wait for an answer. */
  end() {
    this.#process.stdin.end();
    this.#process.kill();
  }

  async #shakeHands() {
    const hello = { protocolVersion: PROTOCOL, capabilities: {}, clientInfo: { name, version: '1' } };
    try {
      await this.request('initialize', hello, START_MS);
    } catch (error) {
      this.end(); // a child that does not answer is of no use to the next call
      this.gone = true;
      throw error;
    }
    this.#send({ method: 'notifications/initialized' });
  }

  #send(message) {
    this.#process.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  #receive(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return; // no message; thrown from here, it would end the harness
    }
    const waiting = this.#waiting.get(message?.id); // none for a notification, or a late answer
    if (message?.error) waiting?.reject(new Error(`${name}: ${message.error.message}`));
    else waiting?.resolve(message.result);
  }

  #down(why) {
    this.gone = true;
    for (const { reject } of [...this.#waiting.values()]) reject(new Error(ended(why)));
  }
}

const ended = (why) =>
  `${name}: the Python process ended (${why}). Hint: call again, which starts it anew; a write may ` +
  'have been accepted, so look first. Its own words are on the stderr of the harness.';
const overdue = (timeoutMs) =>
  `${name} (timeout): no answer within ${timeoutMs} ms, beyond the budget of the call itself. ` +
  'Hint: call again; the call was cancelled.';
