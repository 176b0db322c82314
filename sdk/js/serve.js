import { AsyncLocalStorage } from 'node:async_hooks';
import { createInterface } from 'node:readline';
import { setOwnVariables } from './environment.js';

/**
 * @typedef {object} Call
 * @property {string} id
 * @property {AbortSignal} signal Aborted when the run is cancelled or reaches its deadline. With a `concurrency` of 1 the
 * program is ended instead.
 */

/**
 * Answers the inputs of the agent's runs: what `handler` returns, or resolves to, is the output; an error that it throws
 * fails that run alone. With `"reuse": "process"` in the manifest the program stays for further inputs, so that what it
 * has loaded and connected serves them, too; otherwise it answers one and ends. What it prints to stdout goes to the log.
 *
 * Call it once, when everything is loaded. Clients of this package use the rights of the current run: make them in the
 * handler.
 *
 * @template Input
 * @param {(input: Input, call: Call) => unknown} handler
 * @returns {Promise<void>} Resolves when there are no further inputs.
 */
export async function serve(handler) {
  const write = process.stdout.write.bind(process.stdout);
  // Only answers are printed to stdout, so that what a library prints cannot be taken for one.
  process.stdout.write = process.stderr.write.bind(process.stderr);
  if (process.env.PLATFORM_REUSE === 'process') await answerAll(handler, write);
  else await answerOne(handler, write);
}

/**
 * @param {(input: any, call: Call) => unknown} handler
 * @param {(text: string) => void} write
 */
async function answerOne(handler, write) {
  let text = '';
  for await (const part of process.stdin.setEncoding('utf8')) text += part;
  const { signal } = new AbortController();
  const { error, output } = await outcome(() => handler(JSON.parse(text || '{}'), { id: '', signal }));
  write(`${error === undefined ? output : JSON.stringify({ error })}\n`);
  if (error !== undefined) process.exitCode = 1;
}

/**
 * @param {(input: any, call: Call) => unknown} handler
 * @param {(text: string) => void} write
 */
async function answerAll(handler, write) {
  const isAlone = Number(process.env.PLATFORM_CONCURRENCY ?? 1) === 1;
  /** @type {AsyncLocalStorage<Record<string, string>>} */
  const variables = new AsyncLocalStorage();
  setOwnVariables(variables);
  /** @type {Map<string, AbortController>} */
  const calls = new Map();
  const answers = new Set();

  /** @param {{ call: string, input: any, environment: Record<string, string> }} given */
  const answer = async ({ call: id, input, environment }) => {
    const controller = new AbortController();
    calls.set(id, controller);
    // Programs that this one starts, and other libraries, read the variables of the process.
    if (isAlone) Object.assign(process.env, environment);
    const { error, output } = await variables.run(environment, () =>
      outcome(() => handler(input, { id, signal: controller.signal })),
    );
    if (isAlone) for (const name of Object.keys(environment)) delete process.env[name];
    calls.delete(id);
    const named = JSON.stringify(id);
    write(`\n{"call":${named},${error === undefined ? `"output":${output}` : `"error":${JSON.stringify(error)}`}}\n`);
  };

  for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    const given = JSON.parse(line);
    if (given.cancel !== undefined) {
      calls.get(given.cancel)?.abort(new Error('Nobody waits for the answer any more.'));
      continue;
    }
    const answered = answer(given);
    answers.add(answered);
    void answered.then(() => answers.delete(answered));
  }
  await Promise.all(answers);
  // Open connections would keep the process.
  process.exit(0);
}

/**
 * @param {() => unknown} work
 * @returns {Promise<{ output: string, error?: undefined } | { error: string, output?: undefined }>} `output` is JSON.
 */
async function outcome(work) {
  try {
    return { output: JSON.stringify((await work()) ?? null) ?? 'null' };
  } catch (error) {
    console.error(error);
    return { error: (error instanceof Error && error.message) || String(error) };
  }
}
