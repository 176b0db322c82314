import { hasCode } from '#core/base/errors.ts';
import type { AgentDefinition } from '../definition.ts';
import type { BundleReport } from './bundle.ts';
import { DependencySources } from './dependency-sources.ts';
import { lockOf } from './lock-file.ts';
import { type PythonProject, readPythonProject } from './python-project.ts';

/**
 * Checks the dependency declarations of a bundle before anything is installed. Returns warnings for the author. Throws
 * INVALID_INPUT for a file that cannot be read, and for a source that installations do not use
 * (`docs/interface/installations.md#dependencies`).
 *
 * @param registries list of `host:port`
 */
export async function checkDependencies(
  bundle: BundleReport,
  { environment }: Pick<AgentDefinition, 'environment'>,
  registries: readonly string[],
): Promise<string[]> {
  const sources = new DependencySources(bundle, registries);
  sources.checkFlags(environment);
  sources.checkPackages();
  if (bundle.textOf('requirements.txt') === undefined) {
    const text = bundle.textOf('pyproject.toml');
    if (text === undefined) return [];
    const { dependencies, warning } = await readPythonProject(text);
    sources.checkProject(text, dependencies);
    const lock = lockOf(bundle);
    if (lock !== undefined) sources.checkLock(lock);
    return warning === undefined ? [] : [warning];
  }
  sources.checkRequirements('requirements.txt');
  const project = await unusedProject(bundle);
  return project?.dependencies.length ? [BOTH] : [];
}

const BOTH =
  'Only the dependencies of requirements.txt are installed, although pyproject.toml also declares dependencies: delete one of the two.';

/** Errors in an unused project file do not matter. */
async function unusedProject(bundle: BundleReport): Promise<PythonProject | undefined> {
  try {
    const text = bundle.textOf('pyproject.toml');
    return text === undefined ? undefined : await readPythonProject(text);
  } catch (error) {
    if (!hasCode(error, 'INVALID_INPUT')) throw error;
    return undefined;
  }
}
