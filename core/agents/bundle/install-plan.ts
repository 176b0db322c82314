import { createHash } from 'node:crypto';
import type { Deps } from '#core/ports/deps.ts';
import type { BundleReport } from './bundle.ts';
import { shellQuote } from './entrypoint.ts';
import { packagesWithoutSdk, requirementsWithoutSdk, SDK_NAME } from './sdk-requirement.ts';

/** What a bundle needs installed before it can run, and under which name the result is kept. */
export interface InstallPlan {
  /** Blob key of the layer. */
  readonly layer: string;
  /** Written to {@link CHANGED_FOLDER} first: what stands in for files of the bundle. */
  readonly changed: Readonly<Record<string, string>>;
  /** Shell lines, run in turn; what they leave in `/home/user/layer` is the layer. */
  readonly commands: readonly string[];
}

const LAYER_FOLDER = '/home/user/layer';
export const CHANGED_FOLDER = '/home/user/changed';
/** A copy of the bundle, for files that name others beside them. */
const SOURCE_FOLDER = '/home/user/source';
export const LAYER_ARCHIVE = '/home/user/layer.tar.gz';
/** npm links packages of the bundle itself (`file:`, workspaces); in the layer such links would lead nowhere. */
const COPY_LINKED_PACKAGES = `cd ${LAYER_FOLDER} && find node_modules -type l -not -path '*/.bin/*' | while IFS= read -r link; do folder=$(readlink -f "$link"); rm "$link"; cp -R "$folder" "$link" || exit 1; done`;

/** Files that name other files of the bundle, or code that runs at installation, make the result depend on the whole bundle. */
const REQUIREMENTS_USE_BUNDLE = /^\s*(-e|--editable|-r|--requirement|-c|--constraint|\.|\/|file:)|@\s*(file:|\.)/m;
const PACKAGE_USES_BUNDLE = /"(file|link):|"workspaces"\s*:|"(preinstall|install|postinstall|prepare)"\s*:/;

/** Each word as it stands: a `>=` in a flag is no redirection. */
const words = (flags = ''): string =>
  flags
    .split(/\s+/)
    .filter((word) => word !== '')
    .map(shellQuote)
    .join(' ');

const hasRequirements = (text: string): boolean =>
  text.split(/\r?\n/).some((line) => line.trim() !== '' && !line.trim().startsWith('#'));

function hasPackages(text: string): boolean {
  try {
    const { dependencies, optionalDependencies } = JSON.parse(text);
    return Object.keys({ ...dependencies, ...optionalDependencies }).length > 0;
  } catch {
    // npm says what is wrong with it better than we could.
    return true;
  }
}

/**
 * `undefined` when there is nothing to install. The layer is named by everything that decides what it holds: the
 * requirement files, the interpreters and the platform; and by the workspace, because installing runs code that its
 * authors chose, and no other workspace shall run what it left.
 */
export async function planInstall(
  deps: Pick<Deps, 'sandbox'>,
  workspaceId: string,
  bundle: BundleReport,
  flags: { pip_flags?: string; npm_flags?: string },
): Promise<InstallPlan | undefined> {
  const wanted = {
    'requirements.txt': bundle.textOf('requirements.txt'),
    'package.json': bundle.textOf('package.json'),
    'package-lock.json': bundle.textOf('package-lock.json'),
  };
  const requirements = wanted['requirements.txt'] && requirementsWithoutSdk(wanted['requirements.txt']);
  const { packageJson, lock } =
    wanted['package.json'] === undefined ? {} : packagesWithoutSdk(wanted['package.json'], wanted['package-lock.json']);
  const python = requirements !== undefined && hasRequirements(requirements);
  const node = packageJson !== undefined && hasPackages(packageJson);
  if (!python && !node) return undefined;

  const { interpreters } = await deps.sandbox.status();
  const usesBundle =
    (python && REQUIREMENTS_USE_BUNDLE.test(requirements)) || (node && PACKAGE_USES_BUNDLE.test(packageJson));
  const identity = {
    workspaceId,
    platform: `${process.platform}-${process.arch}`,
    ...(python && { requirements, python: interpreters.python, pipFlags: flags.pip_flags }),
    ...(node && { packageJson, lock, node: interpreters.node, npmFlags: flags.npm_flags }),
    ...(usesBundle && { bundle: bundle.sha256 }),
  };
  const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex');
  const agent = '/home/user/agent';
  const changesPython = python && requirements !== wanted['requirements.txt'];
  const changesNode = node && packageJson !== wanted['package.json'];
  return {
    layer: `layers/${hash}.tar.gz`,
    changed: {
      ...(changesPython && { 'requirements.txt': requirements }),
      ...(changesNode && { 'package.json': packageJson, ...(lock !== undefined && { 'package-lock.json': lock }) }),
    },
    commands: [
      ...(changesPython || changesNode ? [`echo '${SDK_NAME} is part of every sandbox: it is not installed.'`] : []),
      ...(changesPython
        ? [`cp -R ${agent} ${SOURCE_FOLDER} && cp ${CHANGED_FOLDER}/requirements.txt ${SOURCE_FOLDER}/`]
        : []),
      ...(python
        ? [
            `${changesPython ? `cd ${SOURCE_FOLDER} && ` : ''}python3 -m pip install --no-input --disable-pip-version-check --no-warn-script-location --progress-bar off ${words(flags.pip_flags)} --target ${LAYER_FOLDER}/python -r requirements.txt`,
          ]
        : []),
      ...(node
        ? [
            usesBundle
              ? `mkdir -p ${LAYER_FOLDER} && cp -R ${agent}/. ${LAYER_FOLDER}/`
              : `mkdir -p ${LAYER_FOLDER} && cp ${agent}/package.json ${lock ? `${agent}/package-lock.json ` : ''}${LAYER_FOLDER}/`,
            ...(changesNode ? [`cp ${CHANGED_FOLDER}/package*.json ${LAYER_FOLDER}/`] : []),
            `cd ${LAYER_FOLDER} && npm ${lock ? 'ci' : 'install'} --omit=dev --no-audit --no-fund --no-update-notifier ${words(flags.npm_flags)}`,
            ...(usesBundle ? [COPY_LINKED_PACKAGES] : []),
          ]
        : []),
      `cd ${LAYER_FOLDER} && tar -czf ${LAYER_ARCHIVE} $(ls -d python node_modules 2>/dev/null)`,
    ],
  };
}
