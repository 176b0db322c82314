import type { AgentDefinition } from './definition.ts';

/** See `docs/interface/versions.md#deprecation`. */
export const DEPRECATION_PERIOD_MS = 60 * 24 * 3600 * 1000;

/** A published version of an agent. */
export interface AgentVersion {
  readonly id: string;
  readonly workspaceId: string;
  readonly orgSlug: string;
  readonly orgName: string;
  readonly name: string;
  /** 0 for a build of `dev`. */
  readonly version: number;
  /** The user whose `dev` it is a build of; absent for published versions. */
  readonly devOf?: string;
  /** The number with which its agent began: more than 1 where an agent of the same name was deleted before. */
  readonly firstVersion: number;
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
  /** Hex. */
  readonly sha256: string;
  /** Blob key; absent for bundles of version 0.1.0. */
  readonly key?: string;
  readonly sizeBytes: number;
  readonly entrypoint: string | null;
  readonly uploadedAt: string;
}

/** The installation of a bundle's dependencies. */
export interface Install {
  readonly status: 'building' | 'ready' | 'failed';
  /** Blob key of the layer. */
  readonly layer: string;
  /** SHA-256 of that blob, hex; absent until it is there, and for layers of version 0.1.0. */
  readonly layerSha256?: string;
  /** Hash of what decides the layer's content, once the version counts as using it (`core/agents/retention`). */
  readonly heldLayer?: string;
  /** The run that shows what pip or npm printed. */
  readonly runId: string;
  /** For `failed`: the line that says why; then, where there was output, an empty line and its beginning and end. */
  readonly error?: string;
  /** Epoch milliseconds. Who has not installed until then has died: a later reader gets `failed` instead of `building`. */
  readonly deadline: number;
}

/** The last segment stands for the content: caches of bundles use it. */
export const newBundleKey = (sha256: string, uploadId: string): string => `bundles/${uploadId}/${sha256}.zip`;
export const bundleKey = ({ sha256, key }: Pick<Bundle, 'sha256' | 'key'>): string => key ?? `bundles/${sha256}.zip`;
export const newLayerKey = (hash: string, runId: string): string => `layers/${hash}-${runId}.tar.gz`;

/** When a superseded version stops answering. */
export const sunsetOf = (version: AgentVersion): number | undefined =>
  version.supersededAt === undefined ? undefined : Date.parse(version.supersededAt) + DEPRECATION_PERIOD_MS;
