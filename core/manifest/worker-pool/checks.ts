import { countCheckTime, mayCompileHere, requireCheckTime, type TimeOwner } from '#core/accounts/limits/cpu-budget.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { BundleContents, BundleUse, UploadUse } from '../bundle/bundle-contents.ts';
import type { InstallPlan } from '../bundle/install-plan.ts';
import type { AssertResult, RunFacts } from '../evals/check-output.ts';
import type { Assert, ReadSuites, SuiteFiles } from '../evals/suite.ts';
import { type FieldError, unchecked } from '../field-error.ts';
import { estimateCost, isSmallCheck, type SchemaWeight } from '../json-schema/simple-schema.ts';
import type { fillCommand, Place } from '../tool-commands/fill-command.ts';
import { Threads } from './pool.ts';
import type { Tasks } from './tasks.ts';

/**
 * Wall-clock limits of one check. Within it, single schemas and values have a limit of a second each, with a better
 * message.
 */
const VALUE_MS = 2_000;
const MANIFEST_MS = 5_000;
const SUITES_MS = 5_000;
/** The limit of one assert, after all asserts of a case together took too long. */
const ASSERT_MS = 500;
/** The largest bundle takes about a second of CPU time, and several times that on a busy machine. */
const BUNDLE_MS = 20_000;

export type CheckDeps = Pick<Deps, 'config' | 'clock'>;

const threads = new Threads();
/** Loaded lazily: the cold start of an agent without schemas does not wait for ajv. */
const validation = lazy(() => import('../json-schema/schema-validation.ts'));
/** Likewise for an agent without tools of its own. */
const filling = lazy(() => import('../tool-commands/fill-command.ts'));

interface KnownSchema {
  /** JSON. */
  readonly text: string;
  /** `undefined` if it is not simple. */
  readonly weight: SchemaWeight | undefined;
}

/**
 * Immutable schema -> its properties. If a table shares its items, the schema of an agent is the same object in each
 * call.
 */
const knownSchemas = new WeakMap<object, KnownSchema>();

function known(schema: Readonly<Record<string, unknown>>): KnownSchema {
  let found = knownSchemas.get(schema);
  if (found === undefined) {
    const text = JSON.stringify(schema);
    found = { text, weight: estimateCost(schema, text) };
    knownSchemas.set(schema, found);
  }
  return found;
}

/**
 * Checks of documents from authors and callers. Each is charged to the time budget of `workspace`. Unless it is known
 * to be cheap, it runs in a worker thread that can be terminated, so that it never delays requests of others. All throw
 * RATE_LIMITED (`docs/interface/limits.md#checks`).
 */

/** Returns the result of `validateAgainst` in `json-schema/schema-validation.ts`. */
export async function validate(
  deps: CheckDeps,
  workspace: TimeOwner,
  schema: Readonly<Record<string, unknown>>,
  value: unknown,
): Promise<FieldError[]> {
  requireCheckTime(deps, workspace);
  const { text, weight } = known(schema);
  if (weight !== undefined && isSmallCheck(weight, value)) {
    const { isCompiled, validateSimple } = await validation();
    if (isCompiled(text) || mayCompileHere(deps, workspace)) {
      const startedAt = performance.now();
      const problems = validateSimple(schema, text, value);
      countCheckTime(deps, workspace, performance.now() - startedAt);
      return problems;
    }
  }
  try {
    return await inThread(deps, workspace, VALUE_MS, 'validate', schema, value);
  } catch (error) {
    if (!hasCode(error, 'CHECK_ENDED')) throw error;
    return [unchecked(`: it ${(error as Error).message}`)];
  }
}

/** Like {@link validate}, for values of a run in progress: an exhausted budget is returned as a problem. */
export async function validateInRun(...args: Parameters<typeof validate>): Promise<FieldError[]> {
  try {
    return await validate(...args);
  } catch (error) {
    if (!hasCode(error, 'RATE_LIMITED')) throw error;
    return [unchecked(`: ${(error as Error).message}`)];
  }
}

/** Command -> positions. The least recently used one is first. */
const knownPlaces = new Map<string, readonly Place[]>();
const MAX_KNOWN_COMMANDS = 500;

/**
 * Returns the result of `fillCommand` in `tool-commands/fill-command.ts`; a command that cannot be parsed is a problem,
 * too.
 */
export async function fillToolCommand(
  deps: CheckDeps,
  workspace: TimeOwner,
  command: string,
  values: Parameters<typeof fillCommand>[2],
): Promise<ReturnType<typeof fillCommand>> {
  try {
    const places = knownPlaces.get(command) ?? (await inThread(deps, workspace, VALUE_MS, 'placesIn', command));
    knownPlaces.delete(command);
    if (knownPlaces.size >= MAX_KNOWN_COMMANDS) knownPlaces.delete(knownPlaces.keys().next().value!);
    knownPlaces.set(command, places);
    const { fillCommand: fill } = await filling();
    return fill(command, places, values);
  } catch (error) {
    if (hasCode(error, 'CHECK_ENDED'))
      return { problem: `the tool's command is too complex: reading it ${(error as Error).message}.` };
    if (hasCode(error, 'RATE_LIMITED')) return { problem: (error as Error).message };
    throw error;
  }
}

/**
 * Returns the result of `checkDefinition` in `parsing/manifest.ts`. Throws INVALID_INPUT for a manifest that takes too
 * long.
 */
export const checkDefinition = (deps: CheckDeps, workspace: TimeOwner, ...args: Parameters<Tasks['checkDefinition']>) =>
  explained(inThread(deps, workspace, MANIFEST_MS, 'checkDefinition', ...args), MANIFEST);

/**
 * Returns the result of `checkUpdate` in `parsing/manifest.ts`. Throws INVALID_INPUT for a manifest that takes too
 * long.
 */
export const checkUpdate = (deps: CheckDeps, workspace: TimeOwner, ...args: Parameters<Tasks['checkUpdate']>) =>
  explained(inThread(deps, workspace, MANIFEST_MS, 'checkUpdate', ...args), MANIFEST);

/** Returns the result of `readSuites` in `evals/read-suites.ts`. Throws INVALID_INPUT, also for suites that take too long. */
export const readEvalSuites = (deps: CheckDeps, workspace: TimeOwner, files: SuiteFiles): Promise<ReadSuites> =>
  explained(inThread(deps, workspace, SUITES_MS, 'readSuites', files), SUITES);

/**
 * Returns the result of `checkOutput` in `evals/check-output.ts`. If the asserts together take too long, each is decided for itself, and
 * those that take too long fail.
 */
export async function checkEvalOutput(
  deps: CheckDeps,
  workspace: TimeOwner,
  asserts: readonly Assert[],
  facts: RunFacts,
): Promise<readonly AssertResult[]> {
  if (asserts.length === 0) return [];
  try {
    return await inThread(deps, workspace, asserts.length === 1 ? ASSERT_MS : VALUE_MS, 'checkOutput', asserts, facts);
  } catch (error) {
    if (!hasCode(error, 'CHECK_ENDED')) throw error;
    if (asserts.length === 1) {
      const reason = `the assert was stopped: deciding it ${(error as Error).message}`;
      return [{ pass: false, score: 0, reason }];
    }
    const results: AssertResult[] = [];
    for (const assert of asserts) results.push(...(await checkEvalOutput(deps, workspace, [assert], facts)));
    return results;
  }
}

/**
 * Returns the result of `readContents` in `bundle/bundle-contents.ts`. Throws INVALID_INPUT, also for a bundle that
 * takes too long.
 */
export const checkBundle = (
  deps: CheckDeps,
  workspace: TimeOwner,
  zip: Uint8Array,
  use: UploadUse,
): Promise<BundleContents> => explained(inThread(deps, workspace, BUNDLE_MS, 'readContents', zip, use), BUNDLE);

/**
 * Returns the result of `readPlan` in `bundle/bundle-contents.ts`. Not charged: an exhausted budget must not fail an
 * installation, and its upload was charged already. Throws INVALID_INPUT.
 */
export function planInThread(
  zip: Uint8Array,
  use: BundleUse,
  entrypoint: string | null,
): Promise<InstallPlan | undefined> {
  const work = {
    task: 'readPlan',
    args: [zip, use, entrypoint],
    limitMs: BUNDLE_MS,
    group: use.version.workspaceId,
  } as const;
  return explained(threads.run({ ...work, onTurn() {}, onEnd() {} }) as Promise<InstallPlan | undefined>, BUNDLE);
}

const SUITES = { subject: 'suite', hint: 'Divide the cases into several files, and write aliases out.' };
const MANIFEST = { subject: 'manifest', hint: 'Make its schemas and their patterns simpler.' };
const BUNDLE = { subject: 'bundle', hint: 'Leave files out that the agent does not need.' };

async function explained<T>(work: Promise<T>, { subject, hint }: typeof MANIFEST): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!hasCode(error, 'CHECK_ENDED')) throw error;
    throw new PlatformError('INVALID_INPUT', `The ${subject} could not be checked: that ${(error as Error).message}.`, {
      hint,
    });
  }
}

async function inThread<Name extends keyof Tasks>(
  deps: CheckDeps,
  workspace: TimeOwner,
  limitMs: number,
  task: Name,
  ...args: Parameters<Tasks[Name]>
): Promise<Awaited<ReturnType<Tasks[Name]>>> {
  requireCheckTime(deps, workspace);
  return threads.run({
    group: workspace.id,
    task,
    args,
    limitMs,
    // Other checks of the workspace may have used up the budget while it waited.
    onTurn: () => requireCheckTime(deps, workspace),
    onEnd: (ms) => countCheckTime(deps, workspace, ms),
  }) as Promise<Awaited<ReturnType<Tasks[Name]>>>;
}
