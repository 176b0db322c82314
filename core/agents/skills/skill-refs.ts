import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import { parseVersion, REFERENCE, splitReference } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { AgentStore, resolveAgent } from '../store.ts';

/** Workspace of references without an organization. References may name its private skills. */
export interface SkillHome {
  readonly workspaceId: string;
  readonly slug: string;
}

type StoreDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/**
 * Finds the skill that a reference names, by default its latest version. If it cannot be used, `problem` completes the
 * sentence "<the reference> ...".
 */
export async function findSkill(
  deps: StoreDeps,
  reference: string,
  home: SkillHome,
): Promise<{ readonly skill: AgentVersion } | { readonly problem: string }> {
  const parts = REFERENCE.test(reference) ? splitReference(reference) : undefined;
  if (parts === undefined) {
    return { problem: 'is not a skill reference: use "skill", "org/skill" or "org/skill@v1"' };
  }
  const { org = home.slug, name, version = 'latest' } = parts;
  const found =
    org === home.slug
      ? await new AgentStore(deps, home.workspaceId).findVersion(name, parseVersion(version)!)
      : await resolveAgent(deps, org, name, version);
  // Same message for absent and private skills: only its own workspace may learn that a private skill exists.
  if (!found || found.preview || !(found.definition.is_public || found.workspaceId === home.workspaceId)) {
    return { problem: `does not exist, or the workspace "${home.slug}" may not use it` };
  }
  if (found.definition.type !== 'skill') return { problem: `is not a skill: its type is ${found.definition.type}` };
  return { skill: found };
}

/** Returns problems of a manifest's `default_skills` for `home`, the workspace that publishes it. */
export async function checkDefaultSkills(
  deps: StoreDeps,
  { default_skills }: AgentDefinition,
  home: SkillHome,
): Promise<FieldError[]> {
  const found = await Promise.all(default_skills.map((reference) => findSkill(deps, reference, home)));
  return found.flatMap((result, index) =>
    'problem' in result
      ? [{ field: `default_skills[${index}]`, message: `is ${default_skills[index]}, which ${result.problem}` }]
      : [],
  );
}

/** Adds the organization `org` to references without one, so that they mean the same in every workspace. */
export const withOrg = (references: readonly string[], org: string): string[] =>
  references.map((reference) => (reference.includes('/') ? reference : `${org}/${reference}`));
