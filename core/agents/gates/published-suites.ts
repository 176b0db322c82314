import { PlatformError } from '#core/base/errors.ts';
import { isJsonObject } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { SuiteFiles } from '#core/manifest/evals/suite.ts';
import { tooManyRuns, unsuited } from '#core/manifest/evals/suits-agent.ts';
import { type CheckDeps, readEvalSuites } from '#core/manifest/worker-pool/checks.ts';

const MAX_NAME = 200;

/**
 * Returns the suites of a new version; `undefined` if there are none. Throws INVALID_INPUT for suites that could not be run on it, with the
 * file and the member, and for a gate without suites.
 */
export async function checkEvalFiles(
  deps: CheckDeps,
  workspace: Workspace,
  definition: AgentDefinition,
  given: unknown,
): Promise<SuiteFiles | undefined> {
  const files = textsIn(given);
  if (files === undefined) {
    if (definition.evals?.gate !== true) return undefined;
    throw new PlatformError('INVALID_INPUT', 'evals.gate: the version has no suites that it could pass.', {
      hint: 'Add one to the agent’s folder, such as evals/first.yaml (docs/evals.md), or send "eval_files"; or remove "gate".',
    });
  }
  const read = await readEvalSuites(deps, workspace, files);
  const found = tooManyRuns(read, definition.evals?.baseline === undefined ? 1 : 2) ?? unsuited(definition, read);
  if (found !== undefined) throw refused(found.problem, found.hint);
  return files;
}

function textsIn(given: unknown): SuiteFiles | undefined {
  if (given === undefined || given === null) return undefined;
  if (!isJsonObject(given) || Object.values(given).some((text) => typeof text !== 'string')) {
    throw refused('must be an object of names of files and their texts.');
  }
  const names = Object.keys(given);
  if (names.some((name) => name === '' || name.length > MAX_NAME)) {
    throw refused(`has a file whose name is not 1 to ${MAX_NAME} characters.`);
  }
  return names.length === 0 ? undefined : (given as SuiteFiles);
}

const refused = (why: string, hint = 'docs/evals.md describes the files.'): PlatformError =>
  new PlatformError('INVALID_INPUT', `eval_files: ${why}`, { hint });
