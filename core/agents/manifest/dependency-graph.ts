import type { AgentDefinition } from '../definition.ts';
import { type AgentAddress, addressOf, dependencyRef } from '../references.ts';
import type { FieldError } from './field-error.ts';

/** What the look-up of a dependency finds. */
export interface DependencyNode {
  readonly definition: AgentDefinition;
  /** Whether the workspace that publishes may call it. */
  readonly accessible: boolean;
}

/** Finds a live version. */
export type LookUpDependency = (address: AgentAddress) => Promise<DependencyNode | undefined>;

/** Longest way from an agent to the end of its dependencies, and most versions on all ways: what a publish looks at. */
const MAX_DEPTH = 16;
const MAX_VERSIONS = 200;

const dependenciesOf = (definition: AgentDefinition) => definition.manifest?.dependencies ?? [];

/**
 * The rules of `manifest.dependencies` that need other agents (`spec.md` *Validation on publish*): they exist, may be
 * called by this workspace and by agents at all, are no skills, and do not lead back to the agent itself.
 *
 * A way back counts whichever version of the agent it reaches: pins can only name older versions, so that no cycle
 * of versions could ever be published, but one of agents calls itself all the same. What lies behind the direct
 * dependencies was checked when they were published; of it only the ways back matter.
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
        { field: level[0]!.field, message: `leads to more dependencies than are accepted: at most ${bounds}` },
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
        id === selfId ? `leads back to the agent itself: ${here.join(' -> ')}` : directProblem(node, depth);
      if (problem !== undefined) {
        errors.push({ field, message: id === selfId ? problem : `is ${ref}, which ${problem}` });
      } else if (node !== undefined) {
        level.push(...dependenciesOf(node.definition).map((next) => ({ ...next, field, path: here })));
      }
    }
  }
  return errors;
}

function directProblem(node: DependencyNode | undefined, depth: number): string | undefined {
  if (depth > 1) return undefined;
  // One message for both: whether a private agent exists is its workspace's business.
  if (!node?.accessible) return 'does not exist, or this workspace may not call it';
  if (node.definition.type === 'skill') return 'is a skill; name it in default_skills';
  if (!node.definition.callable) return 'no agent may call ("callable" is false)';
  return undefined;
}
