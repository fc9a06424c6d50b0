#!/bin/sh
# Put what the knowledge base knows before a task, and give both to a driver.
set -eu
export LIGHTRAG_ENDPOINT="${LIGHTRAG_ENDPOINT:-http://127.0.0.1:9621}"
dsh-lightrag augment "Who discovered polonium?" --fence | ${DRIVER:-claude -p}
