import type * as z from 'zod';
import { type AgentAddress, addressOf, dependencyRef, refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { agentTree } from './schema.ts';
import { withOrg } from './skills/skill-refs.ts';

type Tree = z.input<typeof agentTree>;
/** Recursive type. The schema names only one level: the OpenAPI document has no recursive schemas. */
type Node = Omit<Tree['dependencies'][number], 'dependencies'> & { readonly dependencies: Node[] };

/** Finds a live version that the caller may see. */
export type FindVisible = (address: AgentAddress) => Promise<AgentVersion | undefined>;

/**
 * Builds the tree of an agent's direct and indirect dependencies with their skills (`docs/interface/agents.md#tree`). A
 * version that occurs more than once has its dependencies only where it is nearest to the root, and is marked
 * `repeated` elsewhere: otherwise agents with many common dependencies would have very large trees.
 */
export async function treeOf(root: AgentVersion, find: FindVisible): Promise<Tree> {
  const shown = new Set([refOf(root)]);
  const skills = new Set<string>();
  let hasLockedSkills = false;
  let depth = 0;

  const describe = (version: AgentVersion) => {
    const { type, default_skills, skills_locked } = version.definition;
    const refs = withOrg(default_skills, version.orgSlug);
    for (const ref of refs) skills.add(ref);
    hasLockedSkills ||= skills_locked;
    return { type, skills: refs, skills_locked, dependencies: [] as Node[] };
  };
  const tree = { agent: refOf(root), ...describe(root) };

  let level = [{ version: root, children: tree.dependencies }];
  while (level.length > 0) {
    const edges = level.flatMap(({ version, children }) =>
      (version.definition.manifest?.dependencies ?? []).map((dependency) => ({ ...dependency, children })),
    );
    if (edges.length > 0) depth += 1;
    const found = await Promise.all(edges.map((edge) => find(addressOf(edge))));
    level = [];
    for (const [index, { children, ...dependency }] of edges.entries()) {
      const agent = dependencyRef(dependency);
      const repeated = shown.has(agent);
      shown.add(agent);
      const target = found[index];
      const node: Node = target
        ? { agent, accessible: true, ...describe(target), ...(repeated && { repeated }) }
        : { agent, accessible: false, type: null, skills: [], skills_locked: false, dependencies: [] };
      children.push(node);
      if (target && !repeated) level.push({ version: target, children: node.dependencies });
    }
  }
  return {
    ...tree,
    summary: {
      total_agents: shown.size,
      total_skills: skills.size,
      max_depth: depth,
      has_locked_skills: hasLockedSkills,
    },
  };
}
