import type { SandboxStatus } from '#core/ports/sandbox.ts';
import { traitsOf } from '../engines.ts';
import type { AgentVersion } from '../version.ts';
import { type BundleReport, inspectBundle } from './bundle.ts';
import { checkDependencies } from './check-dependencies.ts';
import { builtEntrypoint, detectEntrypoint, zippedFolderWarning } from './entrypoint.ts';
import { type InstallPlan, planInstall } from './install-plan.ts';

/** Properties of a bundle that an upload needs. Plain data, because it comes from a worker thread. */
export interface BundleContents {
  /** SHA-256 of the zip in hex. */
  readonly sha256: string;
  readonly fileCount: number;
  /** Result of {@link detectEntrypoint}; null if there is none. */
  readonly entrypoint: string | null;
  /** Hash of the installation plan; absent if there is nothing to install. */
  readonly layerHash?: string;
  /** Sentences for the author. */
  readonly warnings: readonly string[];
}

/** Everything except its bytes that the checks of a bundle depend on. */
export interface BundleUse {
  readonly version: Pick<AgentVersion, 'workspaceId' | 'definition'>;
  readonly interpreters: SandboxStatus['interpreters'];
}

export interface UploadUse extends BundleUse {
  /** Entrypoint that the upload names. */
  readonly entrypoint?: string;
  /** List of `host:port`, see {@link checkDependencies}. */
  readonly registries: readonly string[];
}

/** Checks a bundle and reads its contents. Throws INVALID_INPUT. */
export async function readContents(zip: Uint8Array, use: UploadUse): Promise<BundleContents> {
  const { version, entrypoint, registries } = use;
  const report = await inspectBundle(zip);
  const warnings = await uploadWarnings(report, version.definition, registries);
  const built = builtEntrypoint(report, version.definition);
  // The code of a loop is for its tools.
  const { hasLoop } = traitsOf(version.definition.execution_engine);
  const start = hasLoop ? null : (detectEntrypoint(report, version.definition, entrypoint, built) ?? null);
  return {
    sha256: report.sha256,
    fileCount: report.files.length,
    entrypoint: start,
    layerHash: (await planInstall(use.interpreters, version, report, start))?.layerHash,
    warnings,
  };
}

async function uploadWarnings(
  report: BundleReport,
  definition: AgentVersion['definition'],
  registries: readonly string[],
): Promise<string[]> {
  const folder = zippedFolderWarning(report, definition);
  const sources = await checkDependencies(report, definition, registries);
  return [...(folder === undefined ? [] : [folder]), ...sources];
}

/**
 * Plans the installation of an uploaded bundle's dependencies, see {@link planInstall}.
 *
 * @param entrypoint that of its {@link BundleContents}
 */
export const readPlan = async (
  zip: Uint8Array,
  use: BundleUse,
  entrypoint: string | null,
): Promise<InstallPlan | undefined> => planInstall(use.interpreters, use.version, await inspectBundle(zip), entrypoint);
