import { isDeepStrictEqual } from 'node:util';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { splitContents } from './skills/skill-contents.ts';

/**
 * Whether publishing `definition` with code and suites of these hashes would create an identical version. A version that
 * cannot run and has no installation in progress is not identical: another attempt may succeed.
 */
export const isUnchanged = (
  version: AgentVersion,
  definition: AgentDefinition,
  { bundle, evals }: { readonly bundle: string | undefined; readonly evals: string | undefined },
): boolean =>
  (version.runnable || version.install?.status === 'building') &&
  version.bundle?.sha256 === bundle &&
  version.evalFiles?.sha256 === evals &&
  isDeepStrictEqual(
    stored(version.definition),
    stored(splitContents(isPrivate(version) ? { ...definition, is_public: false } : definition).definition),
  );

/** Whether a publish makes the version private, whatever its manifest says. */
const isPrivate = ({ devOf, preview }: AgentVersion): boolean => devOf !== undefined || preview !== undefined;

/** Drops undefined members, as the table does. */
const stored = (definition: AgentDefinition): unknown => JSON.parse(JSON.stringify(definition));
