import { createHash } from 'node:crypto';
import type { SandboxStatus } from '#core/ports/sandbox.ts';
import type { AgentVersion } from '../version.ts';
import type { BundleReport } from './bundle.ts';
import { shellQuote } from './entrypoint.ts';
import { readPythonProject } from './python-project.ts';
import { packagesWithoutSdk, requirementsWithoutSdk, SDK_NAME } from './sdk-requirement.ts';

/** How the dependencies of a bundle are installed before it can run. */
export interface InstallPlan {
  /** Stands for everything that decides what the result, the layer, holds. */
  readonly layerHash: string;
  /** Name -> text: written to {@link CHANGED_FOLDER} first, they replace files of the bundle. */
  readonly changed: Readonly<Record<string, string>>;
  /** Shell lines, run in turn. Then {@link PACK_LAYER} packs what they left. */
  readonly commands: readonly string[];
}

export const AGENT_FOLDER = '/home/user/agent';
const LAYER_FOLDER = '/home/user/layer';
export const CHANGED_FOLDER = '/home/user/changed';
/** A copy of the bundle: a requirement file may name other files beside it. */
export const SOURCE_FOLDER = '/home/user/source';
/** Prints the layer as an archive. Only the format of GNU tar is read again. Nothing that was installed runs meanwhile. */
export const PACK_LAYER = `mkdir -p ${LAYER_FOLDER} && cd ${LAYER_FOLDER} && tar -cz --format=gnu --files-from=/dev/null $(ls -d python node_modules 2>/dev/null)`;
/** npm links packages of the bundle itself (`file:`, workspaces); in the layer such links would break. */
const COPY_LINKED_PACKAGES = `cd ${LAYER_FOLDER} && find node_modules -type l -not -path '*/.bin/*' | while IFS= read -r link; do folder=$(readlink -f "$link"); [ -e "$folder" ] || { echo "\${link#node_modules/}: package.json names a folder that is not in the bundle: $folder" >&2; exit 1; }; rm "$link"; cp -R "$folder" "$link" || exit 1; done`;

/**
 * Matches files that name other files of the bundle or run code: the result then depends on the whole bundle. Spaces, but
 * no line ends: from each of many empty lines, a pattern that goes on to the next ones would read all of them again.
 */
const REQUIREMENTS_USE_BUNDLE =
  /^[^\S\r\n\u2028\u2029]*(-e|--editable|-r|--requirement|-c|--constraint|\.|\/|file:|[\w.-]+(\/|\.whl|\.zip|\.tar))|(^|[ \t])(-f|--find-links)|@[^\S\r\n\u2028\u2029]*(file:|\.)/m;
const PACKAGE_USES_BUNDLE = /"(file|link):|"workspaces"\s*:|"(preinstall|install|postinstall|prepare)"\s*:/;

/** Quoted word by word: a `>=` in a flag is no redirection. */
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
    // npm's own error about it is better than ours.
    return true;
  }
}

/** What one language needs; `isChanged`: its files differ from those of the bundle, `hasSdk`: they named our package. */
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

/** The dependencies of `pyproject.toml` as a file of requirements. */
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
 * The installation that a bundle needs as the code of `version`; `undefined` when there is nothing to install. The same
 * bundle gives the same plan. Throws INVALID_INPUT for a requirement file that is not text, and as {@link readPythonProject}.
 *
 * The hash is made of everything that decides what the layer holds: the requirement files, the interpreters and the platform;
 * and by the workspace, because an installation runs code that its authors chose, and no other workspace may run the result.
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
    ...(python && { requirements: python.requirements, python: interpreters.python, pipFlags: flags.pip_flags }),
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
  const install = `python3 -m pip install --no-input --disable-pip-version-check --no-warn-script-location --progress-bar off ${words(flags)} --target ${LAYER_FOLDER}/python -r requirements.txt`;
  if (!isChanged) return [install];
  return [
    `cp -R ${AGENT_FOLDER} ${SOURCE_FOLDER} && cp ${CHANGED_FOLDER}/requirements.txt ${SOURCE_FOLDER}/`,
    `cd ${SOURCE_FOLDER} && ${install}`,
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
