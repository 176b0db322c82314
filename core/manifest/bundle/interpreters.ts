import type { SandboxStatus } from '#core/ports/sandbox.ts';
import type { AgentDefinition } from '../definition.ts';
import { isObject } from '../field-error.ts';
import type { BundleReport } from './bundle.ts';
import { shellQuote } from './entrypoint.ts';

/** Folder of a layer with interpreters that the machine does not have. */
export const INTERPRETERS = 'interpreters';
/** Programs of the interpreters of a layer, as paths in it. They come before those of the machine. */
export const INTERPRETER_PATHS = ['python', 'node', 'bun'].map((name) => `${INTERPRETERS}/${name}/bin`);
/** It knows the addresses and sums of the builds of Python that it installs. */
const UV_VERSION = '0.13.9';
const UV_FOLDER = '/home/user/uv';
const NODE_FOLDER = '/home/user/node';
const BUN_FOLDER = '/home/user/bun';
/** Range of a project that needs Bun and does not say which. */
const ANY_BUN = '1';
const RANGE = /^[\w.^~<>=|* -]{1,100}$/;

/** Versions, such as `3.12`, that an agent asks for and this machine does not have. */
export interface OwnInterpreters {
  readonly python?: string;
  readonly node?: string;
  /** Range of versions. No machine has it. */
  readonly bun?: string;
}

const isVersion = (wanted: string, version: string | undefined): boolean =>
  version === wanted || version?.startsWith(`${wanted}.`) === true;

export function ownInterpreters(
  { environment }: Pick<AgentDefinition, 'environment'>,
  has: SandboxStatus['interpreters'],
  bundle: Pick<BundleReport, 'files' | 'textOf'>,
): OwnInterpreters {
  const { python_version: python, node_version: node } = environment ?? {};
  const bun = neededBun(bundle);
  return {
    ...(python && !isVersion(python, has.python) && { python }),
    ...(node && !isVersion(node, has.node) && { node }),
    ...(bun && { bun }),
  };
}

/** Returns the versions of Bun that a project is made for, unless it installs Bun as a package. */
function neededBun({ files, textOf }: Pick<BundleReport, 'files' | 'textOf'>): string | undefined {
  const { engines, dependencies, devDependencies } = objectIn(textOf('package.json'));
  if ([dependencies, devDependencies].some((each) => isObject(each) && Object.hasOwn(each, 'bun'))) return undefined;
  const range = isObject(engines) ? engines.bun : undefined;
  if (typeof range === 'string') return RANGE.test(range) ? range.trim() : ANY_BUN;
  return files.some(({ path }) => path === 'bun.lock' || path === 'bun.lockb') ? ANY_BUN : undefined;
}

function objectIn(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text ?? '{}');
    return isObject(value) ? value : {};
  } catch {
    // npm reports the error.
    return {};
  }
}

/** Puts the interpreters of a layer, which lies in `folder`, first on the PATH. */
export const exportPaths = (folder: string): string =>
  `export PATH=${INTERPRETER_PATHS.map((path) => `${folder}/${path}`).join(':')}:$PATH`;

/** Shell lines that install the interpreters into the layer in `folder`, with a title for each. */
export function interpreterSteps({ python, node, bun }: OwnInterpreters, folder: string) {
  return [
    ...(python ? [{ title: `installing Python ${python}`, command: installPython(python, folder) }] : []),
    ...(node ? [{ title: `installing Node.js ${node}`, command: installNode(node, folder) }] : []),
    ...(bun ? [{ title: `installing Bun ${bun}`, command: installBun(bun, folder) }] : []),
  ];
}

/** Installs the build of CPython that uv knows: https://docs.astral.sh/uv/concepts/python-versions/ */
const installPython = (version: string, folder: string): string =>
  [
    `python3 -m pip install --quiet --no-input --disable-pip-version-check --target ${UV_FOLDER} uv==${UV_VERSION}`,
    `export UV_CACHE_DIR=${UV_FOLDER}/cache UV_PYTHON_INSTALL_DIR=${UV_FOLDER}/pythons`,
    `${UV_FOLDER}/bin/uv python install --no-bin --no-config --no-progress cpython-${version}`,
    `mkdir -p ${folder}/${INTERPRETERS} && mv ${UV_FOLDER}/pythons/cpython-*.*.*-*/ ${folder}/${INTERPRETERS}/python`,
    // Isolated programs find the platform's own package, too.
    `cd ${folder}/${INTERPRETERS}/python && rm -rf share && for at in lib/python3.*/site-packages; do echo /runtime/python > $at/platform.pth; done`,
    'bin/python3 --version',
  ].join(' && ');

/** Installs the package of npm that holds nothing but this program. */
const installNode = (version: string, folder: string): string =>
  [
    `mkdir -p ${NODE_FOLDER} ${folder}/${INTERPRETERS}/node/bin && cd ${NODE_FOLDER} && echo '{}' > package.json`,
    `arch=$(node --print process.arch)`,
    `npm install --no-audit --no-fund --no-update-notifier --ignore-scripts node-linux-$arch@${version}`,
    `mv node_modules/node-linux-$arch/bin/node ${folder}/${INTERPRETERS}/node/bin/ && ${folder}/${INTERPRETERS}/node/bin/node --version`,
  ].join(' && ');

/** Installs the package of npm that holds nothing but this program; a processor without AVX2 needs another build. */
const installBun = (range: string, folder: string): string =>
  [
    `mkdir -p ${BUN_FOLDER} ${folder}/${INTERPRETERS}/bun/bin && cd ${BUN_FOLDER} && echo '{}' > package.json`,
    `build=$(node --print "process.arch === 'arm64' ? 'aarch64' : /\\bavx2\\b/.test(fs.readFileSync('/proc/cpuinfo', 'utf8')) ? 'x64' : 'x64-baseline'")`,
    `npm install --no-audit --no-fund --no-update-notifier --ignore-scripts @oven/bun-linux-$build@${shellQuote(range)}`,
    `mv node_modules/@oven/bun-linux-$build/bin/bun ${folder}/${INTERPRETERS}/bun/bin/ && ${folder}/${INTERPRETERS}/bun/bin/bun --version`,
  ].join(' && ');
