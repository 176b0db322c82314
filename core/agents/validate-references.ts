import { lackingEgress } from '#core/accounts/grants/rights.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { checkDependencyGraph } from '#core/manifest/dependency-graph.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import type { FieldError } from '#core/manifest/field-error.ts';
import { checkDefinition, checkUpdate } from '#core/manifest/worker-pool/checks.ts';
import { defaultModel } from '#core/models/choose.ts';
import { fitSettings, settingsFor } from '#core/models/model-settings.ts';
import { providersOf } from '#core/models/providers.ts';
import { toolServerUrlProblem } from '#core/outbound/tool-server-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isCompatible } from '#core/ports/llm.ts';
import { readHead } from './record.ts';
import { checkDefaultSkills, type SkillHome } from './skills/skill-refs.ts';
import { resolveAgent } from './store.ts';

type CheckDeps = Pick<Deps, 'config' | 'main' | 'blobs' | 'clock' | 'ids'>;

/** Returns every problem of a manifest for `workspace`, including those that depend on other agents and skills. */
export async function checkManifest(
  deps: CheckDeps & Pick<Deps, 'modelTable'>,
  workspace: Workspace,
  body: unknown,
): Promise<{ readonly definition?: AgentDefinition; readonly errors: FieldError[]; readonly warnings: string[] }> {
  const { definition, errors, warnings } = await checkDefinition(deps, workspace, body);
  if (definition === undefined) return { errors, warnings };
  const self = { org: workspace.slug, name: definition.name };
  const graph = await checkDependencyGraph(definition, self, async ({ org, agent, version }) => {
    const found = await resolveAgent(deps, org, agent, version);
    // Runs act for a workspace, not for a user: the publisher's memberships grant the run no access.
    // A preview ends before the version that depends on it.
    const accessible =
      found?.preview === undefined && (found?.definition.is_public || found?.workspaceId === workspace.id);
    return found && { definition: found.definition, accessible };
  });
  const skills = await checkDefaultSkills(deps, definition, skillHome(workspace));
  const servers = checkServerUrls(deps, definition);
  const ofModels = await modelWarnings(deps, definition);
  const ofEgress = await egressWarnings(deps, workspace, definition);
  return {
    definition,
    errors: [...errors, ...graph, ...skills, ...servers],
    warnings: [...warnings, ...ofModels, ...ofEgress],
  };
}

/** Returns warnings about targets with which the next version cannot run yet. */
async function egressWarnings(
  deps: Pick<Deps, 'main' | 'config'>,
  { id: workspaceId, slug: org }: Workspace,
  { name, egress = [] }: AgentDefinition,
): Promise<string[]> {
  if (egress.length === 0) return [];
  // Loaded lazily: few agents connect to other ports, and smaller functions start faster.
  const { closedTarget } = await import('#core/outbound/egress-target.ts');
  const closed = closedTarget(deps.config, egress);
  const head = await readHead(deps, workspaceId, name);
  const next = { workspaceId, org, name, version: head.assigned + 1, firstVersion: head.first_version };
  const { targets, requests } = await lackingEgress(deps, workspaceId, [next], egress);
  return [
    ...(closed === undefined ? [] : [`egress: ${org}/${name} cannot run on this platform: ${closed}`]),
    ...(targets.length === 0
      ? []
      : [
          `egress: runs are refused until an owner of the workspace allows ${targets.join(', ')}: ${requests.join('; ')}.`,
        ]),
  ];
}

/** Returns warnings about settings that the agent's default models do not support. */
async function modelWarnings(
  { modelTable, config }: Pick<Deps, 'modelTable' | 'config'>,
  definition: AgentDefinition,
): Promise<string[]> {
  const { loop, model_settings, execution_engine } = definition;
  const hasSettings = model_settings != null && traitsOf(execution_engine).asksModels;
  if (loop?.max_cost_usd == null && !hasSettings) return [];
  await modelTable.refresh();
  const models = providersOf(definition, config).flatMap((provider) => {
    const model = defaultModel(provider, definition);
    // Prices of a provider that a workspace set up are its own.
    return model === undefined || isCompatible(provider) ? [] : [{ provider, model }];
  });
  const usage = { inputTokens: 0, outputTokens: 0 };
  const unpriced = models.filter(({ provider, model }) => modelTable.costOf(provider, model, usage) === undefined);
  const unfit = models.map((choice) => {
    const settings = settingsFor(choice.provider, model_settings);
    return fitSettings(choice, modelTable.factsOf(choice.model), settings).warnings;
  });
  return [
    ...(loop?.max_cost_usd == null
      ? []
      : unpriced.map(
          ({ model }) => `loop.max_cost_usd has no effect with ${model}: the price of that model is not known.`,
        )),
    // With several providers, a setting may be meant for only one of them.
    ...(unfit.every((warnings) => warnings.length > 0) ? unfit.flat().map((text) => `model_settings: ${text}`) : []),
  ];
}

/** The host decides which addresses are allowed. */
const checkServerUrls = ({ config }: Pick<Deps, 'config'>, { loop }: AgentDefinition): FieldError[] =>
  (loop?.mcp_servers ?? []).flatMap(({ url, transport }, index) => {
    const problem = url === undefined ? undefined : toolServerUrlProblem(config, url);
    const field = transport === 'a2a' ? 'manifest.dependencies' : `mcp_servers[${index}].url`;
    return problem === undefined ? [] : [{ field, message: `cannot be used: ${problem}` }];
  });

/** Returns `current` with the changes of a PATCH body. Throws INVALID_INPUT. */
export async function changedDefinition(
  deps: CheckDeps,
  workspace: Workspace,
  current: AgentDefinition,
  patch: { readonly default_skills?: unknown },
): Promise<AgentDefinition> {
  const { definition, errors } = await checkUpdate(deps, workspace, current, patch);
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
