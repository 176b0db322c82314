import { isDeepStrictEqual } from 'node:util';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';

/**
 * Whether a publish of `definition` with code of the hash `bundleSha256` would make the same version again. One that cannot
 * run, and for which nothing is being installed, is not the same: another try may succeed.
 */
export const isUnchanged = (
  version: AgentVersion,
  definition: AgentDefinition,
  bundleSha256: string | undefined,
): boolean =>
  (version.runnable || version.install?.status === 'building') &&
  version.bundle?.sha256 === bundleSha256 &&
  isDeepStrictEqual(
    stored(version.definition),
    stored(version.devOf === undefined ? definition : { ...definition, is_public: false }),
  );

/** As the table has it: without members that are undefined. */
const stored = (definition: AgentDefinition): unknown => JSON.parse(JSON.stringify(definition));
