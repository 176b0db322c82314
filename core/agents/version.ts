import type { AgentDefinition } from './definition.ts';

/** See `docs/interface/versions.md#deprecation`. */
const DEPRECATION_PERIOD_MS = 60 * 24 * 3600 * 1000;

/** A published version of an agent. */
export interface AgentVersion {
  readonly id: string;
  readonly workspaceId: string;
  readonly orgSlug: string;
  readonly orgName: string;
  readonly name: string;
  readonly version: number;
  readonly definition: AgentDefinition;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** False while its code bundle or its dependencies are missing. */
  readonly runnable: boolean;
  readonly bundle?: Bundle;
  readonly install?: Install;
  /**
   * When a newer version became current; the deprecation period runs from then
   * (`docs/interface/versions.md#deprecation`).
   */
  readonly supersededAt?: string;
  /** Id of the version that this one is a copy of. */
  readonly forkedFrom?: string;
}

export interface Bundle {
  /** Hex; also the last segment of the blob key. */
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly entrypoint: string | null;
  readonly uploadedAt: string;
}

/** The installation of a bundle's dependencies. */
export interface Install {
  readonly status: 'building' | 'ready' | 'failed';
  /** Blob key of the layer. */
  readonly layer: string;
  /** The run that shows what pip or npm printed. */
  readonly runId: string;
  /** For `failed`: the last lines. */
  readonly error?: string;
  /** For `building`: epoch milliseconds; past it, the installing process has died. */
  readonly deadline: number;
}

export const bundleKey = (sha256: string): string => `bundles/${sha256}.zip`;

/** When a superseded version stops answering. */
export const sunsetOf = (version: AgentVersion): number | undefined =>
  version.supersededAt === undefined ? undefined : Date.parse(version.supersededAt) + DEPRECATION_PERIOD_MS;
