import type { Adaptation, Entry, Project } from './framework.ts';
import { type Providers, providersOf } from './providers.ts';

/** File that the platform starts; the project's own code stays as it is. */
export const PYTHON_ADAPTER = 'platform_main.py';

const isIdentifier = (text: string): boolean => /^[A-Za-z_]\w*$/.test(text);

/** How Python imports a file of the project: the folders that it searches besides the project's own, and the module. */
export function moduleOf(
  project: Project,
  file: string,
): { readonly folders: readonly string[]; readonly module: string } {
  const parts = file
    .replace(/\.py$/, '')
    .replace(/\/__init__$/, '')
    .split('/');
  const base = parts.at(-1)!;
  const above = parts.slice(0, -1);
  const isInPackage = above.length > 0 && project.has(`${above.join('/')}/__init__.py`);
  const folders = above.length > 0 && !isInPackage ? [above.join('/')] : [];
  if (parts[0] === 'src' && parts.length > 1 && !project.has('src/__init__.py')) {
    return { folders: [...new Set(['src', ...folders])], module: parts.slice(1).join('.') };
  }
  return parts.every(isIdentifier) ? { folders, module: parts.join('.') } : { folders, module: base };
}

/** Reads the input, keeps stdout for the result, and finds the project's modules. */
function head(project: Project, entry: Entry, program: Program, keys: Providers['aliases']): string {
  const { title, imports = [], environment = {} } = program;
  const { folders, module } = moduleOf(project, entry.file);
  const name = entry.name ?? 'main';
  const own = isIdentifier(module.replaceAll('.', '_'))
    ? `from ${module} import ${name} as entry`
    : `entry = importlib.import_module(${JSON.stringify(module)}).${name}`;
  const settings = Object.entries(environment).map(
    ([variable, value]) => `os.environ.setdefault(${JSON.stringify(variable)}, ${JSON.stringify(value)})`,
  );
  const aliases = keys.flatMap(({ name: alias, from, without }) => [
    `if ${JSON.stringify(from)} in os.environ:`,
    `    os.environ.setdefault(${JSON.stringify(alias)}, os.environ[${JSON.stringify(from)}]${without === undefined ? '' : `.removesuffix(${JSON.stringify(without)})`})`,
  ]);
  return `"""Runs ${entry.file} (${title}) on the platform: reads the input as JSON from stdin, and writes the output as JSON to stdout.

\`platform init --from\` wrote this file once. Change it as you like.
"""

${['importlib', 'json', 'os', 'sys', ...imports]
  .sort()
  .map((each) => `import ${each}\n`)
  .join('')}
given = json.load(sys.stdin)
# stdout is the output. Everything else that is printed goes to stderr, the log, which callers can follow live.
output = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
${folders.length > 0 ? `sys.path[:0] = [os.path.join(os.path.dirname(__file__), each) for each in ${JSON.stringify(folders)}]\n` : ''}${[...settings, ...aliases].map((line) => `${line}\n`).join('')}

def show(text):
    """Streams a piece of the answer to callers that follow the run."""
    print(text or "", end="", file=sys.stderr, flush=True)


def plain(value):
    """Returns a value as JSON has it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return list(value) if isinstance(value, (set, frozenset, tuple)) else str(value)


${own}${entry.isFactory ? '\n\nentry = entry()' : ''}

`;
}

const TAIL = `
json.dump(result, output, default=plain)
output.flush()
`;

/** A program that is started for each call. */
export interface Program {
  readonly title: string;
  /** Code that sets `result` from `entry` and `given`; may use `show`. */
  readonly code: string;
  /** Modules of the standard library that the code uses. */
  readonly imports?: readonly string[];
  /** Variables that are set unless they are there. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly input: unknown;
  readonly inputSchema: unknown;
  readonly outputSchema?: unknown;
  /** Provider of models that the framework uses unless the project says otherwise. */
  readonly provider?: string;
  readonly notes?: readonly string[];
}

export function pythonProgram(project: Project, entry: Entry, program: Program): Adaptation {
  const { supported, aliases } = providersOf(project, program.provider);
  return {
    manifest: {
      supported_providers: supported,
      runtime: { command: `python3 ${PYTHON_ADAPTER}` },
      input_schema: program.inputSchema,
      ...(program.outputSchema !== undefined && { output_schema: program.outputSchema }),
    },
    files: { [PYTHON_ADAPTER]: head(project, entry, program, aliases) + program.code + TAIL },
    input: program.input,
    notes: [...(program.notes ?? []), ...runsOnImport(project, entry)],
  };
}

/** Warns of code that calls the model while the module is imported, as scripts of quickstarts do. */
function runsOnImport(project: Project, { file }: Entry): string[] {
  const lines = (project.textOf(file) ?? '').split('\n');
  const call = /\.(?:invoke|ainvoke|kickoff|run_sync|run|stream)\(/;
  const top = lines.findIndex(
    (line) => /^(?!def |class |from |import |async def )[A-Za-z_]/.test(line) && call.test(line),
  );
  if (top < 0) return [];
  return [
    `${file}, line ${top + 1}, runs each time that the file is imported: put it below \`if __name__ == "__main__":\`.`,
  ];
}

/** Whether a project declares a package of PyPI. @param extra What its requirement must match, too */
export const declares = ({ dependencies }: Project, name: string, extra = /^/): boolean =>
  dependencies.python.some((each) => each.name === name && extra.test(each.requirement));
