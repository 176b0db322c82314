import { isDeepStrictEqual } from 'node:util';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { splitContents } from './skills/skill-contents.ts';

/**
 * Whether publishing `definition` with code of the hash `bundleSha256` would create an identical version. A version
 * that
 * cannot run and has no installation in progress is not identical: another attempt may succeed.
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
    stored(splitContents(version.devOf === undefined ? definition : { ...definition, is_public: false }).definition),
  );

/** Drops undefined members, as the table does. */
const stored = (definition: AgentDefinition): unknown => JSON.parse(JSON.stringify(definition));
