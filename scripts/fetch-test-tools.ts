/**
 * Downloads the tools of `npm run test:aws` and the rehearsal into the user's cache folder, which all checkouts share:
 * DynamoDB Local from Maven Central, moto from PyPI, and Lambda's runtime client from npm, whose native part is compiled
 * here; generators of clients and requests that read the OpenAPI document; and with Go, Stripe's stripe-mock. Fast if
 * they already exist.
 * The suites do this themselves; run this file to do it in advance. The license of DynamoDB Local allows use but not
 * redistribution, so it must never be committed.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const DYNAMODB_LOCAL = '2.6.1';
const MOTO = '5.2.5';
const LAMBDA_RUNTIME = '4.0.2';
const SCHEMATHESIS = '4.32.5';
const PYTHON_CLIENT_GENERATOR = '0.29.1';
const TYPESCRIPT_CLIENT_GENERATOR = '7.13.0';
const PYTHON_BUILD = '1.6.1';
const PYTHON_CDK = '2.275.0';
const MYPY = '2.4.1';
const STRIPE_MOCK = '0.203.0';
const PYTHON_RELEASE = 'v0.0.0-3.14.6-20260610-1';
const PIP = '26.1';
const MAVEN_DEPENDENCY_PLUGIN = '3.8.1';

const { XDG_CACHE_HOME = '' } = process.env;
/** Folder that all checkouts share. The variable counts only with an absolute path (XDG Base Directory Specification). */
const CACHE = join(
  isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(homedir(), '.cache'),
  'agent-platform/test-tools',
);

export interface AwsEmulators {
  /** Folder with jars and native libraries. */
  readonly dynamoDbLocal: string;
  /** Python interpreter with `moto` and its `cfnlint`. */
  readonly python: string;
}

/** Throws with the missing tool and how to install it. */
export function fetchAwsEmulators(): AwsEmulators {
  needs('java', ['-version'], 'Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)');
  return {
    dynamoDbLocal: fetchOnce(`dynamodb-local-${DYNAMODB_LOCAL}`, fetchDynamoDbLocal),
    python: join(
      fetchOnce(`moto-${MOTO}`, (folder) => fetchPython(folder, `moto[server]==${MOTO}`)),
      'bin',
      'python',
    ),
  };
}

/**
 * Returns the start file of the client that runs Node functions in Lambda. It is not in our lockfile, because it takes
 * a C++ compiler and a minute, and is not part of the platform. Throws with the missing tool and how to install it.
 */
export function fetchLambdaRuntime(): string {
  const folder = fetchOnce(`lambda-runtime-${LAMBDA_RUNTIME}`, (unfinished) => {
    for (const command of ['autoconf', 'automake', 'libtoolize', 'cmake', 'g++', 'make', 'python3']) {
      needs(
        command,
        ['--version'],
        'a C++ compiler (Debian: apt-get install autoconf automake libtool cmake g++ make python3)',
      );
    }
    fetchNode(unfinished, `aws-lambda-ric@${LAMBDA_RUNTIME}`);
  });
  return join(folder, 'node_modules/aws-lambda-ric/index.mjs');
}

export interface ApiTools {
  /** Python interpreter with `schemathesis.cli` and `openapi_python_client`. */
  readonly python: string;
  /** The program `openapi-typescript`. It is not in our lockfile, because it requires an older TypeScript. */
  readonly openapiTypescript: string;
}

/** Returns tools that read the OpenAPI document like its users. Throws with the missing tool and how to install it. */
export function fetchApiTools(): ApiTools {
  const python = fetchOnce(`schemathesis-${SCHEMATHESIS}-${PYTHON_CLIENT_GENERATOR}`, (folder) =>
    fetchPython(folder, `schemathesis==${SCHEMATHESIS}`, `openapi-python-client==${PYTHON_CLIENT_GENERATOR}`),
  );
  const node = fetchOnce(`openapi-typescript-${TYPESCRIPT_CLIENT_GENERATOR}`, (folder) =>
    fetchNode(folder, `openapi-typescript@${TYPESCRIPT_CLIENT_GENERATOR}`, 'typescript@5'),
  );
  return { python: join(python, 'bin/python'), openapiTypescript: join(node, 'node_modules/.bin/openapi-typescript') };
}

/**
 * Returns a folder of programs whose `python3` has `build`, which packs the Python SDK. Throws if Python is missing.
 */
export function fetchPythonBuild(): string {
  return join(
    fetchOnce(`build-${PYTHON_BUILD}`, (folder) => fetchPython(folder, `build==${PYTHON_BUILD}`)),
    'bin',
  );
}

/** Returns a Python interpreter with `mypy`. Throws if Python is missing. */
export function fetchMypy(): string {
  return join(
    fetchOnce(`mypy-${MYPY}`, (folder) => fetchPython(folder, `mypy==${MYPY}`)),
    'bin/python',
  );
}

/** Returns a folder of programs whose `python3` has the CDK. Throws if Python is missing. */
export function fetchPythonCdk(): string {
  return join(
    fetchOnce(`python-cdk-${PYTHON_CDK}`, (folder) => fetchPython(folder, `aws-cdk-lib==${PYTHON_CDK}`)),
    'bin',
  );
}

/**
 * Returns Stripe's mock server, which validates requests against Stripe's OpenAPI document. Returns `undefined` on a
 * machine without Go, which compiles it.
 */
export function fetchStripeMock(): string | undefined {
  if (spawnSync('go', ['version'], { stdio: 'ignore' }).status !== 0) return undefined;
  const folder = fetchOnce(`stripe-mock-${STRIPE_MOCK}`, (unfinished) => {
    const sources = join(unfinished, 'go');
    // Go makes its downloads read-only, so that they could not be deleted.
    const env = { ...process.env, GOBIN: unfinished, GOPATH: sources, GOFLAGS: '-modcacherw' };
    run('go', ['install', `github.com/stripe/stripe-mock@v${STRIPE_MOCK}`], env);
    rmSync(sources, { recursive: true, force: true });
  });
  return join(folder, 'stripe-mock');
}

/**
 * Returns a release of CPython as uv installs them: an archive with the folder `python`. It comes from a Go module
 * that repacks https://github.com/astral-sh/python-build-standalone, without pip, which is added here.
 *
 * Throws if Go or Python is missing.
 */
export function fetchPythonRelease(): { readonly archive: string; readonly version: string } {
  needs('go', ['version'], 'Go (Debian: apt-get install golang)');
  const version = /\d+\.\d+\.\d+-(\d+\.\d+\.\d+)/.exec(PYTHON_RELEASE)![1]!;
  const folder = fetchOnce(`python-${version}`, (unfinished) => {
    mkdirSync(unfinished);
    const env = { ...process.env, GOPATH: join(unfinished, 'go'), GOFLAGS: '-modcacherw' };
    run('go', ['mod', 'download', `github.com/kluctl/go-embed-python@${PYTHON_RELEASE}`], env);
    const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
    const module = `go/pkg/mod/github.com/kluctl/go-embed-python@${PYTHON_RELEASE}`;
    const source = join(unfinished, module, 'python/internal/data', `linux-${architecture}`);
    const target = join(unfinished, 'python');
    for (const { name, perm, symlink, compressed } of JSON.parse(readFileSync(join(source, 'files.json'), 'utf8'))
      .files) {
      const path = join(target, name);
      mkdirSync(dirname(path), { recursive: true });
      if (symlink !== undefined) symlinkSync(symlink, path);
      else if (compressed)
        writeFileSync(path, gunzipSync(readFileSync(join(source, `${name}.gz`))), { mode: perm & 0o777 });
      else if (statSync(join(source, name)).isFile()) copyFileSync(join(source, name), path);
      if (symlink === undefined && existsSync(path)) chmodSync(path, (perm & 0o777) | 0o200);
    }
    const packages = join(target, `lib/python${version.split('.').slice(0, 2).join('.')}/site-packages`);
    run('python3', ['-m', 'pip', 'install', '--quiet', '--target', packages, `pip==${PIP}`]);
    run('tar', ['-czf', join(unfinished, 'python.tar.gz'), '-C', unfinished, 'python']);
    for (const used of ['go', 'python']) rmSync(join(unfinished, used), { recursive: true });
  });
  return { archive: join(folder, 'python.tar.gz'), version };
}

/**
 * Filled under a temporary name first, so that neither an aborted nor a concurrent download leaves a partial folder.
 */
function fetchOnce(name: string, fill: (folder: string) => void): string {
  const folder = join(CACHE, name);
  if (existsSync(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(CACHE, { recursive: true });
  console.error(`fetching ${name} into ${CACHE} …`);
  try {
    fill(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

function fetchDynamoDbLocal(folder: string): void {
  needs('mvn', ['-version'], 'Maven (Debian: apt-get install maven)');
  mkdirSync(folder);
  const pom = join(folder, 'pom.xml');
  writeFileSync(
    pom,
    `<project>
      <modelVersion>4.0.0</modelVersion>
      <groupId>local</groupId><artifactId>dynamodb-local</artifactId><version>1</version>
      <dependencies><dependency>
        <groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId><version>${DYNAMODB_LOCAL}</version>
      </dependency></dependencies>
    </project>`,
  );
  const plugin = `org.apache.maven.plugins:maven-dependency-plugin:${MAVEN_DEPENDENCY_PLUGIN}`;
  run('mvn', [
    '-B',
    '-q',
    '-f',
    pom,
    `${plugin}:copy-dependencies`,
    '-DincludeScope=runtime',
    `-DoutputDirectory=${folder}`,
  ]);
}

function fetchPython(folder: string, ...packages: string[]): void {
  needs('python3', ['-c', 'import venv, ensurepip'], 'Python 3 with venv (Debian: apt-get install python3-venv)');
  run('python3', ['-m', 'venv', folder]);
  // Python compiles what it imports, a small part of the packages.
  run(join(folder, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--no-compile', ...packages]);
}

function fetchNode(folder: string, ...packages: string[]): void {
  mkdirSync(folder);
  const manifest = { private: true, allowScripts: { 'aws-lambda-ric': true } };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', folder, ...packages]);
}

function needs(command: string, args: string[], what: string): void {
  if (spawnSync(command, args, { stdio: 'ignore' }).status !== 0) {
    throw new Error(`the tests of the AWS adapters need ${what}: "${command} ${args.join(' ')}" does not run here`);
  }
}

function run(command: string, args: string[], env = process.env): void {
  const { status, error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', env });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${error ?? ''}${stdout}${stderr}`);
}

if (import.meta.main) {
  fetchAwsEmulators();
  fetchLambdaRuntime();
  fetchApiTools();
  if (fetchStripeMock() === undefined) console.error('without Go there is no stripe-mock: its test is skipped');
}
