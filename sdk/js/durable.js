import { AsyncLocalStorage } from 'node:async_hooks';
import { errorOf, PlatformError, StepOrderError, TimeoutExceededError } from './errors.js';
import * as workspace from './workspace.js';

/** Exit code of a program that ends because it waits; it is started again later. */
const SUSPENDED = 75;
/** A shorter sleep does not end the program: to start it again takes about as long. */
const SHORT_SECONDS = 30;
/** About a minute: what was done must be kept, and sending it twice changes nothing. */
const RETRIES = 9;
/** Time in which the program may do something else before it comes to the next step that it did before. */
const STALL_MS = 5000;
/** Time in which the program may begin something else before it ends to wait. */
const IDLE_MS = 20;

/**
 * @typedef {object} Known What the platform knows about the run.
 * @property {number} position
 * @property {string} kind
 * @property {string} text Name of the step or event, or the question.
 * @property {number} number
 * @property {'done' | 'failed' | 'waiting' | 'suspended' | 'started'} status
 * @property {any} value
 * @property {{ code: string, message: string }} [error]
 */

/**
 * @typedef {object} Task
 * @property {() => unknown} [work] What a step does.
 * @property {object} [wait] What the platform waits for.
 */

/**
 * @typedef {object} Begun
 * @property {string} kind
 * @property {string} text Name of the step or event, or the question.
 * @property {number} number
 * @property {Task} task
 * @property {'begun' | 'working' | 'waiting'} state
 * @property {(value: any) => void} resolve
 * @property {(error: unknown) => void} reject
 */

/** @param {{ kind: string, text: string, number: number }} entry */
const idOf = ({ kind, text, number }) => `${kind}\n${text}\n${number}`;

/** @param {{ kind: string, text: string, number: number }} entry */
const shown = ({ kind, text, number }) => `${text === '' ? kind : `${kind} ${JSON.stringify(text)}`} (${number})`;

/** @type {(...failure: [string, import('./errors.js').Failure]) => PlatformError} */
const makeError = (message, failure) =>
  failure.status === 409 ? new StepOrderError(message, failure) : errorOf(message, failure);

/** Lets the program go on, up to where it waits for something. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Set in what a step does. */
const inStep = new AsyncLocalStorage();

/**
 * The steps of this process. Values that are known are delivered in the order in which they were first known, so a
 * program that only waits for its steps does the same again, also if it does several at once.
 */
class Steps {
  /** @type {readonly string[]} */
  #path;
  /** @type {Known[]} */
  #known = [];
  /** Number of those that the program has come to. */
  #passed = 0;
  /** @type {Promise<void> | undefined} */
  #loaded;
  /** @type {Map<string, number>} */
  #numbers = new Map();
  /** What the program waits for, in the order in which it began. @type {Map<string, Begun>} */
  #begun = new Map();
  #working = 0;
  #isPumping = false;
  #hasNews = false;
  /** @type {Promise<unknown>} */
  #sent = Promise.resolve();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #stall;

  /** @param {string} runId */
  constructor(runId) {
    this.#path = ['workspaces', process.env.PLATFORM_BILLING_ORG_ID ?? '', 'runs', runId, 'steps'];
  }

  /**
   * @param {string} kind
   * @param {string} text
   * @param {Task} task
   * @returns {Promise<any>}
   */
  begin(kind, text, task) {
    const parent = inStep.getStore();
    if (parent !== undefined) throw new TypeError(`${parent} cannot contain ${kind} ${JSON.stringify(text)}`);
    const number = (this.#numbers.get(`${kind}\n${text}`) ?? 0) + 1;
    this.#numbers.set(`${kind}\n${text}`, number);
    return new Promise((resolve, reject) => {
      this.#begun.set(idOf({ kind, text, number }), { kind, text, number, task, state: 'begun', resolve, reject });
      this.#pump();
    });
  }

  async #pump() {
    this.#hasNews = true;
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      this.#loaded ??= this.#load();
      await this.#loaded;
      while (this.#hasNews) {
        this.#hasNews = false;
        await turn();
        if (await this.#passKnown()) this.#startBegun();
        await this.#suspendIfIdle();
      }
    } catch (error) {
      for (const begun of [...this.#begun.values()]) this.#end(begun, () => begun.reject(error));
    } finally {
      this.#isPumping = false;
    }
  }

  async #load() {
    for (let hasMore = true; hasMore; ) {
      const query = { after: this.#known.length };
      const page = await workspace.request('GET', this.#path, { query, retries: RETRIES });
      this.#known.push(...page.steps);
      hasMore = page.has_more;
    }
  }

  /** Delivers values that are known. Returns whether the program has passed all that it did before. */
  async #passKnown() {
    for (;;) {
      const next = this.#known[this.#passed];
      if (next === undefined) break;
      const begun = this.#begun.get(idOf(next));
      const isMark = next.status === 'suspended' || next.status === 'started';
      if (begun === undefined && !isMark) {
        this.#watch(next);
        return false;
      }
      this.#passed += 1;
      clearTimeout(this.#stall);
      this.#stall = undefined;
      if (begun === undefined) continue;
      if (next.status === 'waiting') begun.state = 'waiting';
      else this.#deliver(begun, next);
      await turn();
    }
    return true;
  }

  /**
   * Fails what the program began in another order than before, if it does not come to the next step soon.
   *
   * @param {Known} next
   */
  #watch(next) {
    this.#stall ??= setTimeout(() => {
      this.#stall = undefined;
      const other = [...this.#begun.values()].find(({ state }) => state === 'begun');
      if (other === undefined) return;
      const message = `The program does ${shown(other)} where an earlier start of this run did ${shown(next)}`;
      const hint = 'Do what may differ from one start to another, such as times and random numbers, in a step.';
      this.#end(other, () => other.reject(new StepOrderError(message, { code: 'CONFLICT', hint })));
    }, STALL_MS);
  }

  #startBegun() {
    for (const begun of [...this.#begun.values()]) if (begun.state === 'begun') this.#start(begun);
  }

  /** @param {Begun} begun */
  async #start(begun) {
    const { kind, text, number, task } = begun;
    const entry = { kind, text, number };
    begun.state = 'working';
    this.#working += 1;
    try {
      if (task.work === undefined) {
        const kept = await this.#put({ ...entry, wait: task.wait });
        if (kept.status === 'waiting') begun.state = 'waiting';
        else this.#deliver(begun, kept);
      } else {
        const value = (await inStep.run(shown(entry), task.work)) ?? null;
        if (JSON.stringify(value) === undefined) throw new TypeError(`${shown(entry)} returned no JSON value`);
        this.#deliver(begun, await this.#put({ ...entry, value }));
      }
    } catch (error) {
      this.#end(begun, () => begun.reject(error));
    } finally {
      this.#working -= 1;
      this.#pump();
    }
  }

  /**
   * Sends one after another, so that values are delivered in the order in which they are kept.
   *
   * @param {object} entry
   * @returns {Promise<Known>}
   */
  #put(entry) {
    const sent = this.#sent.then(async () => {
      const body = { position: this.#known.length + 1, ...entry };
      const kept = await workspace.request('POST', this.#path, { body, retries: RETRIES, makeError });
      this.#known.push(kept);
      this.#passed = this.#known.length;
      return kept;
    });
    this.#sent = sent.catch(() => {});
    return sent;
  }

  /**
   * @param {Begun} begun
   * @param {Known} known
   */
  #deliver(begun, { status, value, error }) {
    this.#end(begun, () => {
      if (status !== 'failed') begun.resolve(value);
      else begun.reject(new TimeoutExceededError(error?.message ?? 'The time is over', { code: 'TIMEOUT' }));
    });
  }

  /**
   * @param {Begun} begun
   * @param {() => void} settle
   */
  #end(begun, settle) {
    this.#begun.delete(idOf(begun));
    settle();
  }

  /** Ends the process when the program only waits. No `catch` or `finally` of the program sees it. */
  async #suspendIfIdle() {
    if (!this.#isIdle()) return;
    await pause(IDLE_MS);
    if (!this.#isIdle()) return;
    await this.#put({ kind: 'suspension', text: '', number: this.#known.length + 1 });
    for (const stream of [process.stdout, process.stderr]) await new Promise((done) => stream.write('', done));
    process.exit(SUSPENDED);
  }

  #isIdle() {
    const begun = [...this.#begun.values()];
    return !this.#hasNews && begun.length > 0 && begun.every(({ state }) => state === 'waiting');
  }
}

/** @type {Steps | undefined} */
let steps;

/** The steps of the run; undefined outside of runs. */
function ofRun() {
  const { PLATFORM_RUN_ID: runId, PLATFORM_SERVICE_KEY: key } = process.env;
  if (runId) {
    steps ??= new Steps(runId);
    return steps;
  }
  if (!key) return undefined;
  throw new PlatformError('This agent does no steps', {
    code: 'UNPROCESSABLE',
    hint: 'Write "durable": {"steps": true} into its agent.json, and publish it again.',
  });
}

/** The steps of the run, for what needs people or events. */
function ofRunOnly() {
  const found = ofRun();
  if (found !== undefined) return found;
  throw new PlatformError('PLATFORM_RUN_ID is not set: this works in runs on the platform', { code: 'UNAUTHORIZED' });
}

/**
 * Does something once in a run: its value is kept, and when the program is started again, `work` is not called again.
 * A step that throws is not kept. The value is JSON of at most 1 MB. Outside of runs, `work` is only called.
 *
 * @template T
 * @param {string} name
 * @param {() => T | Promise<T>} work
 * @returns {Promise<T>}
 * @throws {StepOrderError}
 * @throws {PlatformError} if the value cannot be kept
 */
export async function step(name, work) {
  const found = ofRun();
  return found === undefined ? work() : found.begin('step', name, { work });
}

/**
 * Lets time pass. For more than 30 seconds the program ends, and is started again from its top when the time has come:
 * meanwhile it uses nothing.
 *
 * @param {number | Date | string} time Seconds, or a time; a text has an offset.
 * @returns {Promise<void>}
 */
export async function sleep(time) {
  const until = time instanceof Date ? time.toISOString() : time;
  const seconds = typeof until === 'number' ? until : (Date.parse(until) - Date.now()) / 1000;
  if (Number.isNaN(seconds)) throw new TypeError(`${JSON.stringify(time)} is neither a time nor a number of seconds`);
  const work = () => pause(Math.max(0, seconds) * 1000);
  const found = ofRun();
  if (found === undefined) return void (await work());
  const wait = typeof until === 'number' ? { seconds: Math.ceil(seconds) } : { until };
  await found.begin('sleep', '', seconds <= SHORT_SECONDS ? { work: async () => void (await work()) } : { wait });
}

/**
 * Asks a person, and returns the answer. The program ends while it waits, and is started again from its top.
 *
 * @param {string} question The same whenever the program is started: it names the question.
 * @param {object} [options]
 * @param {readonly string[]} [options.options] Answers to choose from.
 * @param {object} [options.schema] JSON Schema of the answer, in place of `options`.
 * @param {number} [options.timeoutSeconds] Default: as long as the run may wait.
 * @returns {Promise<any>} A text, unless there is a schema.
 * @throws {TimeoutExceededError} if nobody answers in time
 */
export async function askHuman(question, { options, schema, timeoutSeconds } = {}) {
  const wait = { options, schema, seconds: timeoutSeconds };
  return ofRunOnly().begin('ask_human', question, { wait });
}

/**
 * Returns the address at which somebody can say that an event of this run has happened, by a POST request with JSON. It is the
 * same for the same name, and the only credential: give it to nobody else.
 *
 * @param {string} name 1 to 64 of `a-z`, `0-9`, `-` and `_`.
 * @returns {Promise<string>}
 */
export const eventUrl = async (name) => ofRunOnly().begin('event_url', name, {});

/**
 * Waits until an event happens that has an address, and returns the JSON that came with it. The program ends while it waits,
 * and is started again from its top. An event that has happened before is kept.
 *
 * @param {string} name
 * @param {object} [options]
 * @param {number} [options.timeoutSeconds] Default: as long as the run may wait.
 * @returns {Promise<any>}
 * @throws {TimeoutExceededError} if it does not happen in time
 */
export const waitForEvent = async (name, { timeoutSeconds } = {}) =>
  ofRunOnly().begin('wait_for_event', name, { wait: { seconds: timeoutSeconds } });
