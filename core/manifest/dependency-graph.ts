import type { AgentDefinition } from './definition.ts';
import type { FieldError } from './field-error.ts';
import { type AgentAddress, addressOf, dependencyRef } from './references.ts';

/** A dependency that exists. */
export interface DependencyNode {
  readonly definition: AgentDefinition;
  /** Whether the publishing workspace may call it. */
  readonly accessible: boolean;
}

/** Finds a version that is not deleted. */
export type LookUpDependency = (address: AgentAddress) => Promise<DependencyNode | undefined>;

/** Limits of a publish: depth of dependencies, and number of versions on all levels together. */
const MAX_DEPTH = 16;
const MAX_VERSIONS = 200;

const dependenciesOf = (definition: AgentDefinition) => definition.manifest?.dependencies ?? [];

/**
 * Checks the rules of `manifest.dependencies` that need other agents
 * (`docs/interface/manifest.md#orchestration-section`): each dependency exists, is callable at all and by this
 * workspace, is not a skill, gets the budget that it recommends, and does not lead back to the agent itself.
 *
 * Any version of the agent counts as a cycle. Pins name only older versions, so a cycle of exact versions cannot be
 * published, but an agent that reaches an older version of itself still calls itself. The dependencies of direct
 * dependencies were checked when those were published, so here they are only searched for cycles.
 */
export async function checkDependencyGraph(
  definition: AgentDefinition,
  self: { readonly org: string; readonly name: string },
  lookUp: LookUpDependency,
): Promise<FieldError[]> {
  const errors: FieldError[] = [];
  const selfId = `${self.org}/${self.name}`;
  const seen = new Set<string>();
  let level = dependenciesOf(definition).map((dependency, index) => ({
    ...dependency,
    field: `manifest.dependencies[${index}]`,
    path: [selfId],
  }));

  for (let depth = 1; level.length > 0; depth++) {
    const fresh = level.filter((dependency) => seen.size < seen.add(dependencyRef(dependency)).size);
    if (depth > MAX_DEPTH || seen.size > MAX_VERSIONS) {
      const bounds = `${MAX_DEPTH} levels and ${MAX_VERSIONS} versions`;
      return [
        ...errors,
        { field: level[0]!.field, message: `leads to more dependencies than allowed: at most ${bounds}` },
      ];
    }
    const found = await Promise.all(
      fresh.map(async (dependency) => ({
        dependency,
        node: dependency.id === selfId ? undefined : await lookUp(addressOf(dependency)),
      })),
    );
    level = [];
    for (const { dependency, node } of found) {
      const { id, field, path } = dependency;
      const ref = dependencyRef(dependency);
      const here = [...path, ref];
      const problem =
        id === selfId
          ? `leads back to the agent itself: ${here.join(' -> ')}`
          : directProblem(node, depth, definition.manifest?.per_call_downstream_cap ?? 0);
      if (problem !== undefined) {
        errors.push({ field, message: id === selfId ? problem : `is ${ref}, which ${problem}` });
      } else if (node !== undefined) {
        level.push(...dependenciesOf(node.definition).map((next) => ({ ...next, field, path: here })));
      }
    }
  }
  return errors;
}

function directProblem(node: DependencyNode | undefined, depth: number, callBudget: number): string | undefined {
  if (depth > 1) return undefined;
  // One message for both cases: only its workspace may know whether a private agent exists.
  if (!node?.accessible) return 'does not exist, or this workspace may not call it';
  if (node.definition.type === 'skill') return 'is a skill; name it in default_skills';
  if (!node.definition.callable) return 'no agent may call ("callable" is false)';
  const wanted = node.definition.manifest?.recommended_min_caller_budget ?? 0;
  if (wanted > callBudget) {
    return `is called with a budget of at least ${wanted} calls (its recommended_min_caller_budget): per_call_downstream_cap is ${callBudget}`;
  }
  return undefined;
}
