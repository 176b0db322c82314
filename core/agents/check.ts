import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { AgentDefinition } from './definition.ts';
import { checkDependencyGraph } from './manifest/dependency-graph.ts';
import type { FieldError } from './manifest/field-error.ts';
import { checkDefaultSkills, type SkillHome } from './skills/skill-refs.ts';
import { resolveAgent } from './store.ts';

type CheckDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>;

/** Loaded on demand: ajv and the shell's grammar would slow the cold start of all other requests. */
export const loadManifestRules = () => import('./manifest/manifest.ts');

/** Every problem of a manifest that `workspace` would publish, also those that other agents and skills decide. */
export async function checkManifest(
  deps: CheckDeps,
  workspace: Workspace,
  body: unknown,
): Promise<{ readonly definition?: AgentDefinition; readonly errors: FieldError[]; readonly warnings: string[] }> {
  const { checkDefinition } = await loadManifestRules();
  const { definition, errors, warnings } = checkDefinition(body);
  if (definition === undefined) return { errors, warnings };
  const self = { org: workspace.slug, name: definition.name };
  const graph = await checkDependencyGraph(definition, self, async ({ org, agent, version }) => {
    const found = await resolveAgent(deps, org, agent, version);
    // Runs act for a workspace, not for a user: the publisher's memberships grant the run no access.
    const accessible = found?.definition.is_public || found?.workspaceId === workspace.id;
    return found && { definition: found.definition, accessible };
  });
  const skills = await checkDefaultSkills(deps, definition, skillHome(workspace));
  return { definition, errors: [...errors, ...graph, ...skills], warnings };
}

/** `current` with the changes of a PATCH body. Throws INVALID_INPUT. */
export async function changedDefinition(
  deps: CheckDeps,
  workspace: Workspace,
  current: AgentDefinition,
  patch: { readonly default_skills?: unknown },
): Promise<AgentDefinition> {
  const { checkUpdate } = await loadManifestRules();
  const { definition, errors } = checkUpdate(current, patch);
  if (definition === undefined) throw invalidManifest(errors);
  if (patch.default_skills !== undefined) {
    const problems = await checkDefaultSkills(deps, definition, skillHome(workspace));
    if (problems.length > 0) throw invalidManifest(problems);
  }
  return definition;
}

const skillHome = ({ id, slug }: Workspace): SkillHome => ({ workspaceId: id, slug });

export const errorText = ({ field, message }: FieldError): string => (field === '' ? message : `${field}: ${message}`);

export const invalidManifest = (errors: readonly FieldError[]): PlatformError =>
  new PlatformError('INVALID_INPUT', errors.map(errorText).join('; '));
