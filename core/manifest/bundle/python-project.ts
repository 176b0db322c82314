import { PlatformError } from '#core/base/errors.ts';
import { isObject, quote, show } from '../field-error.ts';
import { poetryRequirements } from './poetry-dependencies.ts';

/** Reading a file of this size takes at most 50 ms, whatever its content. */
const MAX_CHARACTERS = 64 * 1024;
/** A PEP 508 requirement begins with a name. A line end, or a backslash at the end, would split or join lines. */
const REQUIREMENT = /^[A-Za-z0-9][^\r\n\\]*$/;
const PATH = /^\.\/[^\s\\]+$/;

/** Dependencies declared in a `pyproject.toml`. */
export interface PythonProject {
  /** PEP 508 requirements and paths such as `./vendor/name`, each without line ends. */
  readonly dependencies: readonly string[];
  /** Warning about dependencies that are not installed although they may be needed. */
  readonly warning?: string;
}

const refused = (why: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `pyproject.toml ${why}.`, {
    hint: 'Correct it, or name the dependencies in requirements.txt.',
  });

/**
 * Reads `[project] dependencies` (https://packaging.python.org/en/latest/specifications/pyproject-toml/) with the sources
 * that `[tool.uv.sources]` names for them, or else `[tool.poetry.dependencies]`. Throws INVALID_INPUT for a file that is
 * too large or not TOML, and for invalid requirements.
 */
export async function readPythonProject(text: string): Promise<PythonProject> {
  if (text.length > MAX_CHARACTERS) throw refused(`is larger than ${MAX_CHARACTERS / 1024} KB`);
  const file = await parseToml(text);
  const project = isObject(file.project) ? file.project : {};
  const { dependencies = [], dynamic } = project;
  if (!Array.isArray(dependencies)) throw refused('has project.dependencies that are not an array of texts');
  const wrong = dependencies.findIndex((each) => typeof each !== 'string' || !REQUIREMENT.test(each));
  if (wrong >= 0) {
    throw refused(
      `has ${show(dependencies[wrong])} as project.dependencies[${wrong}], which is not a requirement such as "requests>=2"`,
    );
  }
  if (Array.isArray(dynamic) && dynamic.includes('dependencies')) return { dependencies, warning: DYNAMIC };
  const tool = isObject(file.tool) ? file.tool : {};
  const uv = isObject(tool.uv) && isObject(tool.uv.sources) ? tool.uv.sources : {};
  return {
    dependencies: project.dependencies === undefined ? poetryDependencies(tool) : withSources(dependencies, uv),
  };
}

const NAME_THEM = 'Name them in [project] dependencies or in requirements.txt.';
const DYNAMIC = `pyproject.toml declares its dependencies as dynamic: a build would find them, so none are installed. ${NAME_THEM}`;

function poetryDependencies(tool: Record<string, unknown>): string[] {
  const poetry = isObject(tool.poetry) && isObject(tool.poetry.dependencies) ? tool.poetry.dependencies : {};
  const { requirements, unknown } = poetryRequirements(poetry);
  const wrong = unknown ?? requirements.find((each) => !REQUIREMENT.test(each) && !PATH.test(each));
  if (wrong === undefined) return requirements;
  throw refused(`has ${quote(wrong)} in [tool.poetry.dependencies], which pip cannot express`);
}

const plainName = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, '-');

/** Names the source of each dependency that has one: pip would take a package of the same name from its index. */
function withSources(dependencies: readonly string[], sources: Record<string, unknown>): string[] {
  const known = new Map(Object.entries(sources).map(([name, source]) => [plainName(name), source]));
  return dependencies.map((dependency) => {
    const name = /^[\w.-]+/.exec(dependency)?.[0] ?? '';
    const source = known.get(plainName(name));
    if (source === undefined || (isObject(source) && source.workspace === true)) return dependency;
    const { path, git, url }: Record<string, unknown> = isObject(source) ? source : {};
    const requirement =
      typeof path === 'string'
        ? `./${path.replace(/^\.\//, '')}`
        : `${name} @ ${typeof git === 'string' ? `git+${git}` : (url ?? '')}`;
    if (PATH.test(requirement) || (REQUIREMENT.test(requirement) && !requirement.endsWith('@ '))) return requirement;
    throw refused(`has a source for ${quote(name)} in [tool.uv.sources] that installations do not use`);
  });
}

async function parseToml(text: string): Promise<Record<string, unknown>> {
  const { parse, TomlError } = await import('smol-toml');
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The first line is the reason; the others quote the file, which may hold a secret.
    const [why] = error.message.split('\n', 1);
    throw refused(`is not valid TOML in line ${error.line}: ${why!.replace(/^Invalid TOML document: /, '')}`);
  }
}
