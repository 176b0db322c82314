import { PlatformError } from '#core/base/errors.ts';
import { isObject, show } from '../field-error.ts';

/** Reading a file of this size takes at most 50 ms, whatever its content. */
const MAX_CHARACTERS = 64 * 1024;
/** A PEP 508 requirement begins with a name. A line end, or a backslash at the end, would split or join lines. */
const REQUIREMENT = /^[A-Za-z0-9][^\r\n\\]*$/;

/** Dependencies declared in a `pyproject.toml`. */
export interface PythonProject {
  /** PEP 508 requirements, each without line ends. */
  readonly dependencies: readonly string[];
  /** Warning about dependencies that are not installed although they may be needed. */
  readonly warning?: string;
}

const refused = (why: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `pyproject.toml ${why}.`, {
    hint: 'Correct it, or name the dependencies in requirements.txt.',
  });

/**
 * Reads `[project] dependencies` (https://packaging.python.org/en/latest/specifications/pyproject-toml/). Throws
 * INVALID_INPUT for a file that is too large or not TOML, and for invalid requirements.
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
  const warning = Array.isArray(dynamic) && dynamic.includes('dependencies') ? DYNAMIC : poetryWarning(file, project);
  return { dependencies, ...(warning !== undefined && { warning }) };
}

const NAME_THEM = 'Name them in [project] dependencies or in requirements.txt.';
const DYNAMIC = `pyproject.toml declares its dependencies as dynamic: a build would find them, so none are installed. ${NAME_THEM}`;

function poetryWarning(file: Record<string, unknown>, project: Record<string, unknown>): string | undefined {
  const poetry = isObject(file.tool) && isObject(file.tool.poetry) ? file.tool.poetry : {};
  const names = Object.keys(isObject(poetry.dependencies) ? poetry.dependencies : {}).filter(
    (name) => name !== 'python',
  );
  if (names.length === 0 || project.dependencies !== undefined) return undefined;
  return `pyproject.toml has its dependencies in [tool.poetry.dependencies] only: none are installed. ${NAME_THEM}`;
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
