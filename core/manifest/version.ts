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
  /** User whose `dev` it is a build of; absent for published versions. */
  readonly devOf?: string;
  /** First version number of the agent: more than 1 if an agent of the same name was deleted before. */
  readonly firstVersion: number;
  readonly definition: AgentDefinition;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** False if its code bundle or its dependencies are missing. */
  readonly runnable: boolean;
  readonly bundle?: Bundle;
  readonly install?: Install;
  /**
   * When a newer version became current; the deprecation period runs from then
   * (`docs/interface/versions.md#deprecation`).
   */
  readonly supersededAt?: string;
  /** Id of the version that this one was copied from. */
  readonly forkedFrom?: string;
  /** Bytes of the blob with the contents of a skill's files; absent if the definition has them. */
  readonly contentsBytes?: number;
  /** The suites that were published with it, which are in a blob; absent without any. */
  readonly evalFiles?: EvalFiles;
  /** What keeps it from becoming current until it was evaluated; absent without a gate. */
  readonly gate?: Gate;
  /** Present for a version that is never current and ends by itself. */
  readonly preview?: { readonly name: string; readonly endsAt: string };
}

export interface EvalFiles {
  readonly bytes: number;
  /** Hex; the same for the same files. */
  readonly sha256: string;
}

/** Statuses of gates, each with whether it keeps the version from becoming `latest`. */
export const GATES = {
  pending: { isHeld: true },
  passed: { isHeld: false },
  failed: { isHeld: true },
  overridden: { isHeld: false },
} as const;
export type GateStatus = keyof typeof GATES;
export const GATE_STATUSES = Object.keys(GATES) as GateStatus[];

/** The gate of a version (`docs/interface/gates.md`). Times are ISO texts. */
export interface Gate {
  readonly status: GateStatus;
  /** The evaluation that decides, or decided last. */
  readonly evalId: string;
  /** Verdict of that evaluation; null until it has one. */
  readonly verdict: string | null;
  /** Why the version is held, or why an owner opened the gate; null otherwise. */
  readonly reason: string | null;
  /** Whom the evaluation acts for: who published. */
  readonly publisher: Publisher;
  /** When the version could run, from which time on it waits; null before. */
  readonly since: string | null;
  readonly decidedAt: string | null;
  /** Id of the user who opened the gate; null for the platform. */
  readonly decidedBy: string | null;
}

export interface Publisher {
  /** Id of the user, or what stands in its place for a trust. */
  readonly userId: string;
  /** Whether the key was limited to the workspace. */
  readonly isBound: boolean;
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

/** Time to pack and store what was installed, and to write the record. */
export const PACKING_MS = 180_000;

/** Installation of a bundle's dependencies. */
export interface Install {
  readonly status: 'building' | 'ready' | 'failed';
  /** Blob key of the layer. */
  readonly layer: string;
  /** SHA-256 of that blob in hex; absent until it exists, and for layers of version 0.1.0. */
  readonly layerSha256?: string;
  /** Hash of the inputs of the layer, once the version is counted as using it (`core/agents/retention`). */
  readonly heldLayer?: string;
  /** Run with the output of pip or npm. */
  readonly runId: string;
  /** For `failed`: one line with the reason, then, if there was output, an empty line and its beginning and end. */
  readonly error?: string;
  /**
   * Epoch milliseconds, {@link PACKING_MS} after the time limit of the installation. After it, the installer is assumed
   * dead, and readers get `failed` instead of `building`.
   */
  readonly deadline: number;
}

/** Returns a new key. Its last segment identifies the content, for caches of bundles. */
export const newBundleKey = (sha256: string, uploadId: string): string => `bundles/${uploadId}/${sha256}.zip`;
export const bundleKey = ({ sha256, key }: Pick<Bundle, 'sha256' | 'key'>): string => key ?? `bundles/${sha256}.zip`;
export const newLayerKey = (hash: string, runId: string): string => `layers/${hash}-${runId}.tar.gz`;

/** Returns when a superseded version stops answering. */
export const sunsetOf = (version: AgentVersion): number | undefined =>
  version.supersededAt === undefined ? undefined : Date.parse(version.supersededAt) + DEPRECATION_PERIOD_MS;
