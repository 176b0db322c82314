import { execFile } from 'node:child_process';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { hasCode } from '#core/base/errors.ts';
import { buildOf } from '#core/manifest/bundle/build-step.ts';
import { builtEntrypoint, detectEntrypoint } from '#core/manifest/bundle/entrypoint.ts';

interface Program {
  /** Path of the folder with its files. */
  readonly folder: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** Published files by path. */
  readonly files?: ReadonlyMap<string, Uint8Array> | undefined;
}

/** Limit of checked files, more than most agents have. Each JavaScript file is checked in its own process. */
const MAX_FILES = 40;
const CHECK_MS = 10_000;

/**
 * Returns problems that would fail the first run of a program, as sentences: missing files in its command, syntax
 * errors, and modules that are neither declared nor among the files. Does not run the program. Python checks need
 * `python3` on this machine and are skipped without it.
 */
export async function programProblems({ folder, body, files }: Program): Promise<string[]> {
  if (files === undefined) return [];
  const paths = [...files.keys()];
  const python = paths.filter((path) => path.endsWith('.py')).slice(0, MAX_FILES);
  const script = paths.filter((path) => /\.[cm]?[jt]s$/.test(path) && !/\.d\.[cm]?ts$/.test(path)).slice(0, MAX_FILES);
  const packages = packagesOf(files, buildIn(body, files) !== undefined);
  const [ofPython, ...ofScripts] = await Promise.all([
    pythonProblems(folder, python, files),
    ...script.map((path) => scriptProblems(folder, path, files, packages)),
  ]);
  return [...missingFiles(body, files), ...ofPython, ...ofScripts.flat()];
}

/** Checks the files in the command: words of the shell line with the extension of a program. */
function missingFiles(body: Program['body'], files: ReadonlyMap<string, Uint8Array>): string[] {
  if (body.loop !== undefined || body.type === 'agent' || body.type === 'agentic') return [];
  const { command } = (body.runtime ?? {}) as { readonly command?: unknown };
  const line = [command, body.run_command, body.entrypoint].find((each) => typeof each === 'string' && each !== '');
  if (line === undefined) return nothingToRun(body, files);
  // The build writes files that the command may use.
  if (buildIn(body, files) !== undefined) return [];
  return (line as string)
    .split(/[\s"';&|<>()]/)
    .map((word) => word.replace(/^\.\//, ''))
    .filter((word) => /^\w[\w./-]*\.(py|[cm]?[jt]s|sh|rb|pl|php)$/.test(word) && !files.has(word))
    .map((word) => `The command uses ${word}, which is not among the published files.`);
}

const NO_COMMAND = { runtime: null, run_command: null, entrypoint: null };

/** Reports a missing command, unless a file has a name that the platform starts without one. */
function nothingToRun(body: Program['body'], files: ReadonlyMap<string, Uint8Array>): string[] {
  try {
    const bundle = bundleOf(files);
    detectEntrypoint(
      bundle,
      NO_COMMAND,
      undefined,
      builtEntrypoint(bundle, { ...NO_COMMAND, build: buildMember(body) }),
    );
    return [];
  } catch {
    return ['There is no main file: set runtime.command in agent.json, or add a main.py, main.js or main.ts.'];
  }
}

const bundleOf = (files: ReadonlyMap<string, Uint8Array>) => ({
  files: [...files.keys()].map((path) => ({ path, size: 0, executable: false })),
  textOf: (path: string) => (files.has(path) ? text(files, path) : undefined),
});

const buildMember = ({ build }: Program['body']): string[] | undefined =>
  build === undefined || build === null ? undefined : [build].flat().map(String);

const buildIn = (body: Program['body'], files: ReadonlyMap<string, Uint8Array>) =>
  buildOf(bundleOf(files), { build: buildMember(body) });

const text = (files: ReadonlyMap<string, Uint8Array>, path: string): string =>
  Buffer.from(files.get(path) ?? '').toString();

/** Takes a file as its argument. Node before 22.13 has no parser of TypeScript. */
const TYPESCRIPT_CHECK = `
import { readFileSync, writeSync } from 'node:fs';
import * as module from 'node:module';
try {
  module.stripTypeScriptTypes?.(readFileSync(process.argv.at(-1), 'utf8'));
} catch (error) {
  // The platform compiles what Node cannot run.
  if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    writeSync(2, error.stack);
    process.exitCode = 1;
  }
}
`;

async function scriptProblems(
  folder: string,
  path: string,
  files: ReadonlyMap<string, Uint8Array>,
  declared: ReadonlySet<string>,
): Promise<string[]> {
  const isTyped = /\.[cm]?ts$/.test(path);
  const file = join(folder, path);
  // `--check` parses TypeScript as JavaScript.
  const check = isTyped ? ['--no-warnings', '--input-type=module', '-e', TYPESCRIPT_CHECK, file] : ['--check', file];
  const { stderr, code } = await run(process.execPath, check);
  // The output has "/a/b.js:3", the line, a caret, and the error.
  const line = /:(\d{1,9})\n/.exec(stderr)?.[1];
  const error = /^(?:\w+ ?\[[\w ]+\]|\w*Error): .*/m.exec(stderr)?.[0]?.replace(/ \[ERR_\w+\]/, '');
  if (code !== 0 && error !== undefined) return [`${path}${line ? `, line ${line}` : ''}: ${error}`];
  const names = new Set(
    [
      ...text(files, path).matchAll(
        /^(?!\s{0,40}(?:\/\/|\*|(?:import|export) type\b)).{0,400}?\b(?:from|import|require)\s{0,4}\(?\s{0,4}(["'])([^"'\s]{1,200})\1/gm,
      ),
    ].map(([, , name]) => packageOf(name!)),
  );
  return [...names]
    .filter((name) => name !== undefined && !declared.has(name))
    .map((name) => `${path} imports ${name}, which is not a dependency in package.json.`);
}

/** Returns the package of a module name; `undefined` for files, URLs and built-in modules. */
function packageOf(name: string): string | undefined {
  // Paths, aliases of a tsconfig, and addresses.
  if (/^[./#]|^[@~]\/|^\w+:/.test(name) || builtinModules.includes(name.split('/', 1)[0]!)) return undefined;
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Returns the packages declared in the bundle's package.json, including the package itself; for a build, all of them. */
function packagesOf(files: ReadonlyMap<string, Uint8Array>, isBuilt: boolean): Set<string> {
  try {
    const manifest = JSON.parse(text(files, 'package.json') || '{}') as Record<string, unknown>;
    const groups = [
      'dependencies',
      'optionalDependencies',
      'peerDependencies',
      ...(isBuilt ? ['devDependencies'] : []),
    ];
    return new Set([String(manifest.name), ...groups.flatMap((group) => Object.keys(manifest[group] ?? {}))]);
  } catch {
    // Publishing reports the invalid JSON.
    return new Set();
  }
}

/** Takes paths as arguments; prints a list of `[path, line, error]` and `[path, module]`. */
const PYTHON_CHECK = `
import ast, json, sys
found = []
for path in sys.argv[2:]:
    try:
        tree = ast.parse(open(sys.argv[1] + '/' + path, 'rb').read(), path)
    except SyntaxError as error:
        found.append([path, error.lineno, type(error).__name__ + ': ' + str(error.msg)])
        continue
    except Exception:
        continue
    guarded = {id(each) for each in ast.walk(tree) if isinstance(each, ast.Try) for each in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) in guarded: continue
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        found += [[path, name.split('.')[0]] for name in names if name.split('.')[0] not in sys.stdlib_module_names]
print(json.dumps(found))
`;

/** Common modules whose package has a different name. */
const PACKAGES: Readonly<Record<string, string>> = {
  PIL: 'pillow',
  yaml: 'pyyaml',
  bs4: 'beautifulsoup4',
  cv2: 'opencv',
  sklearn: 'scikit-learn',
  dotenv: 'python-dotenv',
  dateutil: 'python-dateutil',
  docx: 'python-docx',
  pptx: 'python-pptx',
  jwt: 'pyjwt',
  fitz: 'pymupdf',
  serial: 'pyserial',
  git: 'gitpython',
  google: 'google',
};

async function pythonProblems(
  folder: string,
  paths: readonly string[],
  files: ReadonlyMap<string, Uint8Array>,
): Promise<string[]> {
  if (paths.length === 0) return [];
  const { stdout, code } = await run('python3', ['-I', '-c', PYTHON_CHECK, folder, ...paths]);
  if (code !== 0) return [];
  const found = JSON.parse(stdout) as ([path: string, line: number, error: string] | [path: string, module: string])[];
  const declared = ['requirements.txt', 'pyproject.toml', 'setup.py', 'setup.cfg', 'Pipfile']
    .map((path) => text(files, path))
    .join('\n')
    .toLowerCase()
    .replaceAll(/[-_.]/g, '-');
  // Every sandbox has the SDK.
  const own = new Set([
    'agent_platform',
    ...[...files.keys()].flatMap((path) => path.split('/').map((part) => part.replace(/\.py$/, ''))),
  ]);
  const isThere = (module: string): boolean =>
    own.has(module) || declared.includes((PACKAGES[module] ?? module).toLowerCase().replaceAll(/[-_.]/g, '-'));
  const problems = found.flatMap((each) => {
    if (each.length === 3) return [`${each[0]}, line ${each[1]}: ${each[2]}`];
    if (isThere(each[1])) return [];
    return [`${each[0]} imports ${each[1]}, which no declared dependency seems to provide.`];
  });
  return [...new Set(problems)];
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Resolves to a nonzero code if the program does not exist or times out. */
function run(program: string, args: readonly string[]): Promise<Ended> {
  // biome-ignore lint/style/noProcessEnv: where the machine keeps its programs.
  const { PATH, HOME } = process.env;
  return new Promise((resolve) => {
    // Excludes the user's environment settings for Node and Python.
    const options = { timeout: CHECK_MS, env: { PATH, HOME }, maxBuffer: 4 * 1024 ** 2 };
    execFile(program, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : hasCode(error, 'ENOENT') ? 127 : 1;
      resolve({ code, stdout, stderr });
    });
  });
}
