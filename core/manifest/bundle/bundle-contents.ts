import type { SandboxStatus } from '#core/ports/sandbox.ts';
import type { AgentVersion } from '../version.ts';
import { type BundleReport, inspectBundle } from './bundle.ts';
import { checkDependencies } from './check-dependencies.ts';
import { detectEntrypoint, zippedFolderWarning } from './entrypoint.ts';
import { type InstallPlan, planInstall } from './install-plan.ts';

/** What an upload needs to know of a bundle. Plain data: it comes from a thread. */
export interface BundleContents {
  /** Hash of the zip, hex. */
  readonly sha256: string;
  readonly fileCount: number;
  /** As {@link detectEntrypoint} finds it; null for none. */
  readonly entrypoint: string | null;
  /** Of the plan for its dependencies; absent when there is nothing to install. */
  readonly layerHash?: string;
  /** Sentences for the author. */
  readonly warnings: readonly string[];
}

/** What decides about a bundle besides its bytes. */
export interface BundleUse {
  readonly version: Pick<AgentVersion, 'workspaceId' | 'definition'>;
  readonly interpreters: SandboxStatus['interpreters'];
}

export interface UploadUse extends BundleUse {
  /** The file that the upload names to start with. */
  readonly entrypoint?: string;
  /** `host:port` each, see {@link checkDependencies}. */
  readonly registries: readonly string[];
}

/** Checks a bundle and all that is read from it. Throws INVALID_INPUT. */
export async function readContents(zip: Uint8Array, use: UploadUse): Promise<BundleContents> {
  const { version, entrypoint, registries } = use;
  const report = await inspectBundle(zip);
  const warnings = await uploadWarnings(report, version.definition, registries);
  return {
    sha256: report.sha256,
    fileCount: report.files.length,
    entrypoint: detectEntrypoint(report, version.definition, entrypoint) ?? null,
    layerHash: (await planInstall(use.interpreters, version, report))?.layerHash,
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

/** How the dependencies of an uploaded bundle are installed, see {@link planInstall}. */
export const readPlan = async (zip: Uint8Array, use: BundleUse): Promise<InstallPlan | undefined> =>
  planInstall(use.interpreters, use.version, await inspectBundle(zip));
