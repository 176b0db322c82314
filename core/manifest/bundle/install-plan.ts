import { createHash } from 'node:crypto';
import type { SandboxStatus } from '#core/ports/sandbox.ts';
import type { AgentVersion } from '../version.ts';
import type { BundleReport } from './bundle.ts';
import { shellQuote } from './entrypoint.ts';
import { readPythonProject } from './python-project.ts';
import { packagesWithoutSdk, requirementsWithoutSdk, SDK_NAME } from './sdk-requirement.ts';

/** Plan to install the dependencies of a bundle before it can run. */
export interface InstallPlan {
  /** Hash of all inputs that determine the content of the layer. */
  readonly layerHash: string;
  /** Name -> text. These files are written to {@link CHANGED_FOLDER} and replace files of the bundle. */
  readonly changed: Readonly<Record<string, string>>;
  /** Shell lines, run in order. Then {@link PACK_LAYER} packs the result. */
  readonly commands: readonly string[];
}

export const AGENT_FOLDER = '/home/user/agent';
const LAYER_FOLDER = '/home/user/layer';
/** Environment of Python (venv), from which {@link FINISH_PYTHON} removes what belongs to this sandbox. */
const PYTHON_FOLDER = `${LAYER_FOLDER}/venv`;
export const CHANGED_FOLDER = '/home/user/changed';
/** Copy of the bundle, because a requirements file may include other files. */
export const SOURCE_FOLDER = '/home/user/source';
/**
 * Prints the layer as an archive in the GNU tar format, the only one that the platform reads. No installed code runs
 * during it.
 */
export const PACK_LAYER = `mkdir -p ${LAYER_FOLDER} && cd ${LAYER_FOLDER} && tar -cz --format=gnu --files-from=/dev/null $(ls -d venv node_modules 2>/dev/null)`;
/**
 * The sandbox of a run adds its own interpreter and settings to the environment (`runner/sandbox/unpack.ts`). Scripts
 * must start the Python that comes first on the PATH there.
 */
const FINISH_PYTHON = `cd ${PYTHON_FOLDER} && rm -rf bin/python bin/python3 bin/python3.[0-9]* bin/[Aa]ctivate* pyvenv.cfg include lib64 .gitignore && find bin -type f -exec sed -i '1s|^#!${PYTHON_FOLDER}/bin/python.*|#!/usr/bin/env python3|' {} +`;
/** npm links packages of the bundle itself (`file:`, workspaces); such links would break in the layer. */
const COPY_LINKED_PACKAGES = `cd ${LAYER_FOLDER} && find node_modules -type l -not -path '*/.bin/*' | while IFS= read -r link; do folder=$(readlink -f "$link"); [ -e "$folder" ] || { echo "\${link#node_modules/}: package.json names a folder that is not in the bundle: $folder" >&2; exit 1; }; rm "$link"; cp -R "$folder" "$link" || exit 1; done`;

/**
 * Matches files that name other files of the bundle or run code, so that the result depends on the whole bundle. The
 * pattern allows spaces but no line ends: otherwise, each of many empty lines would rescan all following ones.
 */
const REQUIREMENTS_USE_BUNDLE =
  /^[^\S\r\n\u2028\u2029]*(-e|--editable|-r|--requirement|-c|--constraint|\.|\/|file:|[\w.-]+(\/|\.whl|\.zip|\.tar))|(^|[ \t])(-f|--find-links)|@[^\S\r\n\u2028\u2029]*(file:|\.)/m;
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
    const { dependencies, optionalDependencies } = JSON.parse(text);
    return Object.keys({ ...dependencies, ...optionalDependencies }).length > 0;
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
  readonly isChanged: boolean;
  readonly hasSdk: boolean;
}
interface NodeNeeds {
  readonly packageJson: string;
  readonly lock: string | undefined;
  readonly isChanged: boolean;
}

async function pythonNeeds(bundle: BundleReport): Promise<PythonNeeds | undefined> {
  const file = bundle.textOf('requirements.txt');
  const given = file ?? (await requirementsOfProject(bundle));
  const requirements = given && requirementsWithoutSdk(given);
  if (!requirements || !hasRequirements(requirements)) return undefined;
  return { requirements, isChanged: requirements !== file, hasSdk: requirements !== given };
}

/** Returns the dependencies of `pyproject.toml` as a requirements file. */
async function requirementsOfProject(bundle: BundleReport): Promise<string | undefined> {
  const project = bundle.textOf('pyproject.toml');
  return project && (await readPythonProject(project)).dependencies.map((each) => `${each}\n`).join('');
}

function nodeNeeds(bundle: BundleReport): NodeNeeds | undefined {
  const given = bundle.textOf('package.json');
  const givenLock = bundle.textOf('package-lock.json');
  if (given === undefined) return undefined;
  const { packageJson, lock } = packagesWithoutSdk(given, givenLock);
  return hasPackages(packageJson) ? { packageJson, lock, isChanged: packageJson !== given } : undefined;
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
): Promise<InstallPlan | undefined> {
  const python = await pythonNeeds(bundle);
  const node = nodeNeeds(bundle);
  if (!python && !node) return undefined;

  const flags = definition.environment ?? {};
  const usesBundle =
    (python && REQUIREMENTS_USE_BUNDLE.test(python.requirements)) ||
    (node && PACKAGE_USES_BUNDLE.test(node.packageJson)) ||
    false;
  const identity = {
    workspaceId,
    platform: `${process.platform}-${process.arch}`,
    ...(python && {
      requirements: python.requirements,
      python: interpreters.python,
      pipFlags: flags.pip_flags,
      // Earlier layers have a plain folder of packages.
      isEnvironment: true,
    }),
    ...(node && { packageJson: node.packageJson, lock: node.lock, node: interpreters.node, npmFlags: flags.npm_flags }),
    ...(usesBundle && { bundle: bundle.sha256 }),
  };
  const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex');
  return {
    layerHash: hash,
    changed: {
      ...(python?.isChanged && { 'requirements.txt': python.requirements }),
      ...(node?.isChanged && {
        'package.json': node.packageJson,
        ...(node.lock !== undefined && { 'package-lock.json': node.lock }),
      }),
    },
    commands: [
      ...(python?.hasSdk || node?.isChanged
        ? [`echo '${SDK_NAME} is part of every sandbox: it is not installed.'`]
        : []),
      ...(python ? pipCommands(python, flags.pip_flags) : []),
      ...(node ? npmCommands(node, usesBundle, flags.npm_flags) : []),
    ],
  };
}

function pipCommands({ isChanged }: PythonNeeds, flags: string | undefined): string[] {
  const create = `python3 -m venv --without-pip ${PYTHON_FOLDER}`;
  const install = `${PYTHON_FOLDER}/bin/python3 -m pip install --no-input --disable-pip-version-check --no-warn-script-location --progress-bar off ${words(flags)} -r requirements.txt`;
  if (!isChanged) return [create, install, FINISH_PYTHON];
  return [
    create,
    `cp -R ${AGENT_FOLDER} ${SOURCE_FOLDER} && cp ${CHANGED_FOLDER}/requirements.txt ${SOURCE_FOLDER}/`,
    `cd ${SOURCE_FOLDER} && ${install}`,
    FINISH_PYTHON,
  ];
}

function npmCommands({ lock, isChanged }: NodeNeeds, usesBundle: boolean, flags: string | undefined): string[] {
  const copy = usesBundle
    ? `cp -R ${AGENT_FOLDER}/. ${LAYER_FOLDER}/`
    : `cp ${AGENT_FOLDER}/package.json ${lock ? `${AGENT_FOLDER}/package-lock.json ` : ''}${LAYER_FOLDER}/`;
  return [
    `mkdir -p ${LAYER_FOLDER} && ${copy}`,
    ...(isChanged ? [`cp ${CHANGED_FOLDER}/package*.json ${LAYER_FOLDER}/`] : []),
    `cd ${LAYER_FOLDER} && npm ${lock ? 'ci' : 'install'} --omit=dev --no-audit --no-fund --no-update-notifier ${words(flags)}`,
    ...(usesBundle ? [COPY_LINKED_PACKAGES] : []),
  ];
}
