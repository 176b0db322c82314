import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import type { SandboxStatus } from '#core/ports/sandbox.ts';
import type { AgentVersion } from '../version.ts';
import { type Build, buildOf, readPackageJson } from './build-step.ts';
import type { BundleReport } from './bundle.ts';
import { builtEntrypoint, shellQuote } from './entrypoint.ts';
import { exportPaths, INTERPRETERS, interpreterSteps, type OwnInterpreters, ownInterpreters } from './interpreters.ts';
import { BUILT } from './layer-reader.ts';
import { constraintsOf, localPackagesOf, lockOf } from './lock-file.ts';
import { readPythonProject } from './python-project.ts';
import { packagesWithoutSdk, requirementsWithoutSdk, SDK_NAME } from './sdk-requirement.ts';
import { filesToCompile } from './typescript.ts';

/** Plan to install the dependencies of a bundle before it can run. */
export interface InstallPlan {
  /** Hash of all inputs that determine the content of the layer. */
  readonly layerHash: string;
  /** Name -> text. These files are written to {@link CHANGED_FOLDER} and replace files of the bundle. */
  readonly changed: Readonly<Record<string, string>>;
  /** Run in order. Then {@link PACK_LAYER} packs the result. */
  readonly steps: readonly InstallStep[];
}

export interface InstallStep {
  /** Completes "the step ..." in messages, such as `npm ci`. */
  readonly title: string;
  /** Shell line. */
  readonly command: string;
  /** Whether it is a command of the author, so that its failure is none of an installer. */
  readonly isBuild?: true;
}

export const AGENT_FOLDER = '/home/user/agent';
const LAYER_FOLDER = '/home/user/layer';
/** Copy of the bundle in which the build runs, with `devDependencies`. */
const BUILD_FOLDER = '/home/user/build';
const BUILD_START = '/home/user/.build-start';
const ESBUILD_FOLDER = '/home/user/esbuild';
const ESBUILD_VERSION = '0.28.2';
/** Environment of Python (venv), from which {@link FINISH_PYTHON} removes what belongs to this sandbox. */
const PYTHON_FOLDER = `${LAYER_FOLDER}/venv`;
export const CHANGED_FOLDER = '/home/user/changed';
const CONSTRAINTS = 'constraints.txt';
/** Copy of the bundle, because a requirements file may include other files. */
export const SOURCE_FOLDER = '/home/user/source';
/**
 * Prints the layer as an archive in the GNU tar format, the only one that the platform reads. No installed code runs
 * during it. The fastest compression takes a third of the time of the default one, and a tenth more space.
 */
export const PACK_LAYER = `mkdir -p ${LAYER_FOLDER} && cd ${LAYER_FOLDER} && tar -c --use-compress-program='gzip -1' --format=gnu --files-from=/dev/null $(ls -d venv node_modules ${BUILT} ${INTERPRETERS} 2>/dev/null)`;
/**
 * The sandbox of a run adds its own interpreter and settings to the environment (`runner/sandbox/unpack.ts`). Scripts
 * must start the Python that comes first on the PATH there.
 */
const FINISH_PYTHON = `cd ${PYTHON_FOLDER} && rm -rf bin/python bin/python3 bin/python3.[0-9]* bin/[Aa]ctivate* pyvenv.cfg include lib64 .gitignore && find bin -type f -exec sed -i '1s|^#!${PYTHON_FOLDER}/bin/python.*|#!/usr/bin/env python3|' {} +`;
/** npm links packages of the bundle itself (`file:`, workspaces); such links would break in the layer. */
const COPY_LINKED_PACKAGES = `cd ${LAYER_FOLDER} && find node_modules -type l -not -path '*/.bin/*' | while IFS= read -r link; do folder=$(readlink -f "$link"); [ -e "$folder" ] || { echo "\${link#node_modules/}: package.json names a folder that is not in the bundle: $folder" >&2; exit 1; }; rm "$link"; cp -R "$folder" "$link" || exit 1; done`;

/**
 * Matches files that name packages of the bundle or run code, so that the result depends on the whole bundle. The
 * pattern allows spaces but no line ends: otherwise, each of many empty lines would rescan all following ones.
 */
const REQUIREMENTS_USE_BUNDLE =
  /^[^\S\r\n\u2028\u2029]*(-e|--editable|\.|\/|file:|[\w.-]+(\/|\.whl|\.zip|\.tar))|(^|[ \t])(-f|--find-links)|@[^\S\r\n\u2028\u2029]*(file:|\.)/m;
/** Matches a line that includes another requirements file, whose text decides the result as well. */
const INCLUDES = /^[^\S\r\n\u2028\u2029]*(?:-r|--requirement|-c|--constraint)(?!\w*-)[ \t=]*([^\s#]*)/gm;
const MAX_INCLUDED = 20;
const PACKAGE_USES_BUNDLE = /"(file|link):|"workspaces"\s*:|"(preinstall|install|postinstall|prepare)"\s*:/;

/** Quotes each word, so that a `>=` in a flag is not a redirection. */
const words = (flags = ''): string =>
  flags
    .split(/\s+/)
    .filter((word) => word !== '')
    .map(shellQuote)
    .join(' ');

const hasRequirements = (text: string): boolean => /^[^\S\r\n\u2028\u2029]*[^\s#]/m.test(text);

function hasPackages(text: string): boolean {
  try {
    const { dependencies, optionalDependencies, workspaces } = JSON.parse(text);
    // Members of a workspace have dependencies of their own, and may be dependencies of the code themselves.
    return Object.keys({ ...dependencies, ...optionalDependencies, ...workspaces }).length > 0;
  } catch {
    // npm reports a better error itself.
    return true;
  }
}

/**
 * Installation of one language. `isChanged`: its files differ from those of the bundle, `hasSdk`: they named our
 * package.
 */
interface PythonNeeds {
  readonly requirements: string;
  /** Versions that a lock file pins. */
  readonly constraints: string | undefined;
  /** Path -> text of the files that the requirements include. Absent if they name other content of the bundle. */
  readonly included: Readonly<Record<string, string>> | undefined;
  readonly isChanged: boolean;
  readonly hasSdk: boolean;
}
interface NodeNeeds {
  readonly packageJson: string;
  readonly manager: keyof typeof LOCKS;
  readonly lock: string | undefined;
  readonly isChanged: boolean;
}

async function pythonNeeds(bundle: BundleReport): Promise<PythonNeeds | undefined> {
  const file = bundle.textOf('requirements.txt');
  const project = file === undefined ? await requirementsOfProject(bundle) : undefined;
  const given = file ?? project?.requirements;
  const requirements = given && requirementsWithoutSdk(given);
  if (!requirements || !hasRequirements(requirements)) return undefined;
  return {
    requirements,
    constraints: project?.constraints,
    included: includedFiles(bundle, requirements),
    isChanged: requirements !== file,
    hasSdk: requirements !== given,
  };
}

/** Returns the dependencies of `pyproject.toml` as a requirements file, and the versions that its lock file pins. */
async function requirementsOfProject(
  bundle: BundleReport,
): Promise<{ readonly requirements: string; readonly constraints: string | undefined } | undefined> {
  const project = bundle.textOf('pyproject.toml');
  if (project === undefined) return undefined;
  const { dependencies } = await readPythonProject(project);
  const lock = lockOf(bundle);
  const packages = lock === undefined ? [] : localPackagesOf(lock).map((path) => `./${path}`);
  return {
    requirements: [...new Set([...dependencies, ...packages])].map((each) => `${each}\n`).join(''),
    constraints: lock && (requirementsWithoutSdk(constraintsOf(lock)) || undefined),
  };
}

/**
 * Returns the requirements files that a requirements file includes, by their paths. Returns `undefined` if one of them
 * names other content of the bundle, or if it cannot be told what they include.
 */
function includedFiles(bundle: BundleReport, requirements: string): Record<string, string> | undefined {
  const included: Record<string, string> = {};
  const open: { readonly text: string; readonly folder: string }[] = [{ text: requirements, folder: '.' }];
  for (const { text, folder } of open) {
    if (REQUIREMENTS_USE_BUNDLE.test(text)) return undefined;
    for (const [, named] of text.matchAll(INCLUDES)) {
      const path = posix.join(folder, named!);
      if (Object.hasOwn(included, path)) continue;
      const content = /^[\w.-]/.test(path) && open.length <= MAX_INCLUDED ? bundle.textOf(path) : undefined;
      if (content === undefined) return undefined;
      included[path] = content;
      open.push({ text: content, folder: posix.dirname(path) });
    }
  }
  return included;
}

/** Lock file of each package manager. */
const LOCKS = { npm: 'package-lock.json', pnpm: 'pnpm-lock.yaml', yarn: 'yarn.lock', 'yarn 4': 'yarn.lock' } as const;
/** Lock files of Yarn 2 and later begin with this member, and cannot be read by Yarn 1. */
const LATER_YARN = /^__metadata:/m;

function nodeNeeds(bundle: BundleReport, hasDependencies = hasPackages): NodeNeeds | undefined {
  const given = bundle.textOf('package.json');
  if (given === undefined) return undefined;
  const texts = Object.entries(LOCKS).map(([manager, file]) => ({ manager, text: bundle.textOf(file) }));
  const found = texts.find(({ manager, text }) => text !== undefined && (manager !== 'yarn' || !LATER_YARN.test(text)));
  const manager = (found?.manager ?? 'npm') as NodeNeeds['manager'];
  const { packageJson, lock } = packagesWithoutSdk(given, manager === 'npm' ? found?.text : undefined);
  if (!hasDependencies(packageJson)) return undefined;
  return { packageJson, manager, lock: manager === 'npm' ? lock : found?.text, isChanged: packageJson !== given };
}

/**
 * Plans the installation that a bundle needs as the code of `version`; `undefined` if there is nothing to install. The
 * plan is deterministic. Throws INVALID_INPUT for a requirements file that is not text, and errors of {@link
 * readPythonProject}.
 *
 * The hash covers everything that determines the content of the layer: the requirements files, the interpreters and the
 * platform. It also covers the workspace, because an installation runs code that its authors chose, and no other
 * workspace may run the result.
 */
export async function planInstall(
  interpreters: SandboxStatus['interpreters'],
  { workspaceId, definition }: Pick<AgentVersion, 'workspaceId' | 'definition'>,
  bundle: BundleReport,
  entrypoint: string | null,
): Promise<InstallPlan | undefined> {
  const python = await pythonNeeds(bundle);
  const node = nodeNeeds(bundle);
  const build = buildOf(bundle, definition);
  const own = ownInterpreters(definition, interpreters, bundle);
  const compiled = build ? [] : filesToCompile(bundle, definition, entrypoint);
  const builds = build !== undefined || compiled.length > 0;
  const ownSteps = interpreterSteps(own, LAYER_FOLDER);
  if (!python && !node && !builds && ownSteps.length === 0) return undefined;

  const flags = definition.environment ?? {};
  const usesBundle =
    (python && python.included === undefined) ||
    (node && (PACKAGE_USES_BUNDLE.test(node.packageJson) || bundle.textOf('pnpm-workspace.yaml') !== undefined)) ||
    false;
  const identity = {
    workspaceId,
    platform: `${process.platform}-${process.arch}`,
    ...(ownSteps.length > 0 && { own }),
    ...(python && {
      requirements: python.requirements,
      python: interpreters.python,
      pipFlags: flags.pip_flags,
      constraints: python.constraints,
      included: python.included,
      // Earlier layers have a plain folder of packages.
      isEnvironment: true,
    }),
    ...(node && {
      packageJson: node.packageJson,
      manager: node.manager,
      lock: node.lock,
      node: interpreters.node,
      npmFlags: flags.npm_flags,
    }),
    ...((usesBundle || builds) && { bundle: bundle.sha256 }),
    ...(builds && { build: build?.commands, compiled, esbuild: ESBUILD_VERSION, node: interpreters.node }),
  };
  const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex');
  return {
    layerHash: hash,
    changed: {
      ...(python?.isChanged && { 'requirements.txt': python.requirements }),
      ...(python?.constraints !== undefined && { [CONSTRAINTS]: python.constraints }),
      ...(node?.isChanged && {
        'package.json': node.packageJson,
        ...(node.manager === 'npm' && node.lock !== undefined && { [LOCKS.npm]: node.lock }),
      }),
    },
    steps: [
      ...ownSteps,
      ...[
        ...(python?.hasSdk || node?.isChanged
          ? [{ title: 'note', command: `echo '${SDK_NAME} is part of every sandbox: it is not installed.'` }]
          : []),
        ...(python ? pipSteps(python, own, flags.pip_flags) : []),
        ...(node ? npmSteps(node, usesBundle, flags.npm_flags) : []),
        ...(build ? buildSteps(bundle, build, { definition, entrypoint }) : []),
        ...(compiled.length > 0 ? compileSteps(compiled) : []),
      ].map((step) =>
        ownSteps.length === 0 ? step : { ...step, command: `${exportPaths(LAYER_FOLDER)}\n${step.command}` },
      ),
    ],
  };
}

const YARN_VERSION = '4.18.1';
/** Major version of pnpm that reads a version of its lock file. Later ones do not build packages such as esbuild. */
const PNPM_VERSIONS: Readonly<Record<string, string>> = { 5: '7', 6: '8', 9: '9' };

interface NodeInstall {
  /** Whether `devDependencies` are installed, too. */
  readonly withDev?: boolean;
  /** Whether exactly the content of the lock file is installed. */
  readonly isFrozen: boolean;
  readonly lock: string | undefined;
}

/** All of them install into one flat `node_modules`. */
const INSTALL_PACKAGES: Readonly<Record<NodeNeeds['manager'], (install: NodeInstall) => string>> = {
  npm: ({ lock, withDev }) =>
    `npm ${lock ? 'ci' : 'install'} ${withDev ? '--include=dev' : '--omit=dev'} --no-audit --no-fund --no-update-notifier`,
  pnpm({ isFrozen, lock, withDev }) {
    const version = /^lockfileVersion: '?(\d+)/m.exec(lock ?? '')?.[1];
    return `npx --yes pnpm@${PNPM_VERSIONS[version ?? ''] ?? '9'} install${withDev ? '' : ' --prod'} --config.node-linker=hoisted --package-import-method=copy ${isFrozen ? '--frozen-lockfile' : '--no-frozen-lockfile'}`;
  },
  // Its lock file has the addresses of a mirror of npm's registry.
  yarn: ({ isFrozen, withDev }) =>
    `sed -i "s|https://registry.yarnpkg.com/|$(npm config get registry)|" ${LOCKS.yarn} && npx --yes yarn@1 install --production${withDev ? '=false' : ''} --non-interactive --no-progress --ignore-engines${isFrozen ? ' --frozen-lockfile' : ''}`,
  // It reads no other variables and settings than its own, and must not run the copy of itself that a bundle may have.
  'yarn 4': ({ withDev }) =>
    `export YARN_NODE_LINKER=node-modules YARN_ENABLE_GLOBAL_CACHE=false YARN_ENABLE_TELEMETRY=0 YARN_ENABLE_SCRIPTS=true YARN_IGNORE_PATH=1 YARN_ENABLE_IMMUTABLE_INSTALLS=false YARN_HTTP_PROXY="$HTTP_PROXY" YARN_HTTPS_PROXY="$HTTPS_PROXY" YARN_UNSAFE_HTTP_WHITELIST='*' YARN_NPM_REGISTRY_SERVER="$(npm config get registry)" \${npm_config_cafile:+YARN_HTTPS_CA_FILE_PATH=$npm_config_cafile} && npx --yes @yarnpkg/cli-dist@${YARN_VERSION} ${withDev ? 'install' : 'workspaces focus --all --production'}`,
};

function pipSteps(
  { isChanged, constraints }: PythonNeeds,
  own: OwnInterpreters,
  flags: string | undefined,
): InstallStep[] {
  // The pip of the machine may be too old for another Python, which brings its own.
  const pip = own.python
    ? `env --unset=PYTHONPATH python3 -m pip --python ${PYTHON_FOLDER}`
    : `${PYTHON_FOLDER}/bin/python3 -m pip`;
  const install = `${pip} install --no-input --disable-pip-version-check --no-warn-script-location --progress-bar off ${words(flags)} -r requirements.txt${constraints === undefined ? '' : ` -c ${CHANGED_FOLDER}/${CONSTRAINTS}`}`;
  const copy = `cp -R ${AGENT_FOLDER} ${SOURCE_FOLDER} && cp ${CHANGED_FOLDER}/requirements.txt ${SOURCE_FOLDER}/`;
  return [
    { title: 'python3 -m venv', command: `python3 -m venv --without-pip ${PYTHON_FOLDER}` },
    ...(isChanged ? [{ title: 'copying the bundle', command: copy }] : []),
    { title: 'pip install', command: isChanged ? `cd ${SOURCE_FOLDER} && ${install}` : install },
    { title: 'completing the environment of Python', command: FINISH_PYTHON },
  ];
}

function npmSteps(
  { manager, lock, isChanged }: NodeNeeds,
  usesBundle: boolean,
  flags: string | undefined,
): InstallStep[] {
  const copy = usesBundle
    ? `cp -R ${AGENT_FOLDER}/. ${LAYER_FOLDER}/`
    : `cp ${AGENT_FOLDER}/package.json ${lock ? `${AGENT_FOLDER}/${LOCKS[manager]} ` : ''}${LAYER_FOLDER}/`;
  const change = isChanged ? ` && cp ${CHANGED_FOLDER}/package*.json ${LAYER_FOLDER}/` : '';
  const install = INSTALL_PACKAGES[manager]({ isFrozen: lock !== undefined && !isChanged, lock });
  return [
    { title: 'copying package.json', command: `mkdir -p ${LAYER_FOLDER} && ${copy}${change}` },
    { title: `${manager} install`, command: `cd ${LAYER_FOLDER} && ${install} ${words(flags)}` },
    ...(usesBundle ? [{ title: 'copying packages of the bundle', command: COPY_LINKED_PACKAGES }] : []),
  ];
}

/**
 * Runs a build in a copy of the bundle, and adds the files that it wrote or changed to the layer. The change time of a
 * file tells which: no program can set it.
 */
function buildSteps(
  bundle: BundleReport,
  { commands }: Build,
  { definition, entrypoint }: { readonly definition: AgentVersion['definition']; readonly entrypoint: string | null },
): InstallStep[] {
  const { dependencies = [], devDependencies = [] } = readPackageJson(bundle) ?? {};
  const node = dependencies.length + devDependencies.length > 0 ? nodeNeeds(bundle, () => true) : undefined;
  const change = node?.isChanged ? ` && cp ${CHANGED_FOLDER}/package*.json ${BUILD_FOLDER}/` : '';
  const paths = `PATH="${BUILD_FOLDER}/node_modules/.bin:${PYTHON_FOLDER}/bin:$PATH"`;
  const expected = builtEntrypoint(bundle, definition) ?? entrypoint;
  return [
    {
      title: 'copying the bundle',
      command: `mkdir -p ${BUILD_FOLDER} && cp -R ${AGENT_FOLDER}/. ${BUILD_FOLDER}/${change}`,
    },
    ...(node
      ? [{ title: `${node.manager} install, with devDependencies`, command: installForBuild(node, definition) }]
      : []),
    { title: 'preparing the build', command: `touch ${BUILD_START} && sleep 0.05` },
    ...commands.map((command) => ({
      title: command.split('\n', 1)[0]!.slice(0, 200),
      command: `cd ${BUILD_FOLDER} && export ${paths} NODE_ENV=production\n${command}`,
      isBuild: true as const,
    })),
    { title: 'collecting what was built', command: COLLECT_BUILT, isBuild: true },
    ...(expected === null || bundle.files.some(({ path }) => path === expected)
      ? []
      : [
          {
            title: 'finding the entrypoint',
            command: `[ -e ${shellQuote(`${LAYER_FOLDER}/${BUILT}/${expected}`)} ] || { echo ${shellQuote(`The build did not write ${expected}, which the program starts with.`)} >&2; exit 1; }`,
            isBuild: true as const,
          },
        ]),
  ];
}

const installForBuild = (
  { manager, lock, isChanged }: NodeNeeds,
  { environment }: Pick<AgentVersion['definition'], 'environment'>,
): string =>
  `cd ${BUILD_FOLDER} && ${INSTALL_PACKAGES[manager]({ isFrozen: lock !== undefined && !isChanged, lock, withDev: true })} ${words(environment?.npm_flags)}`;

/** Leaves out installed packages and caches of later builds. */
const COLLECT_BUILT = `mkdir -p ${LAYER_FOLDER}/${BUILT} && cd ${BUILD_FOLDER} && find . \\( -name node_modules -o -path ./.next/cache \\) -prune -o \\( -type f -o -type l \\) -cnewer ${BUILD_START} -print0 | tar -c --no-recursion --null --files-from=- | tar -x -C ${LAYER_FOLDER}/${BUILT} && echo "$(find ${LAYER_FOLDER}/${BUILT} -type f | wc -l) files were built."`;

/** Compiles TypeScript that Node cannot run into the layer. */
const compileSteps = (files: readonly string[]): InstallStep[] => [
  {
    title: 'npm install esbuild',
    command: `mkdir -p ${ESBUILD_FOLDER} && cd ${ESBUILD_FOLDER} && echo '{}' > package.json && npm install --no-audit --no-fund --no-update-notifier esbuild@${ESBUILD_VERSION}`,
  },
  {
    title: 'compiling TypeScript',
    command: `node /runtime/helpers/compile_typescript.mjs ${ESBUILD_FOLDER} ${AGENT_FOLDER} ${LAYER_FOLDER}/${BUILT} ${files.map(shellQuote).join(' ')}`,
    isBuild: true,
  },
];
