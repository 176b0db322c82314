import type { TimeOwner } from '#core/accounts/limits/cpu-budget.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { type CheckDeps, validate, validateInRun } from '#core/manifest/worker-pool/checks.ts';
import type { EngineResult, Warning } from '../engines/engine.ts';
import type { CallInput } from '../input/call-input.ts';

/**
 * Checks `document`, the input with the schema's defaults, against the agent's schema, in the time budget of
 * `workspace`.
 * Returns warnings about deprecated fields that the caller sent. Throws INVALID_INPUT, RATE_LIMITED.
 */
export async function checkInput(
  deps: CheckDeps,
  {
    agent,
    input,
    workspace,
  }: { readonly agent: AgentVersion; readonly input: CallInput; readonly workspace: Workspace },
  document: CallInput['document'],
): Promise<Warning[]> {
  const schema = agent.definition.input_schema;
  if (schema === null) return [];
  if (input.isMultipart && engineTraits(agent).hasSandbox) {
    return [
      { code: 'VALIDATION_SKIPPED', message: 'The input schema is applied to JSON bodies, not to uploaded files.' },
    ];
  }
  const problems = await validate(
    deps,
    workspace,
    schema,
    input.isMultipart ? asDescribed(schema, document) : document,
  );
  if (problems.length > 0) {
    const text = problems.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)).join('; ');
    throw new PlatformError('INVALID_INPUT', `The input does not match the agent's input schema: ${text}`);
  }
  const properties = (schema.properties ?? {}) as Record<string, { deprecated?: unknown }>;
  return Object.keys(input.document)
    .filter((field) => properties[field]?.deprecated === true)
    .map((field) => ({
      code: 'DEPRECATED_FIELD',
      field,
      message: `The field "${field}" will be removed in the next version.`,
    }));
}

/** Drops `files` from the document unless the schema declares it. */
function asDescribed(
  schema: Readonly<Record<string, unknown>>,
  document: CallInput['document'],
): CallInput['document'] {
  if (Object.hasOwn((schema.properties as object | undefined) ?? {}, 'files')) return document;
  const { files, ...rest } = document;
  return rest;
}

/**
 * Returns whose time budget pays for the checks of a run, which take as long as the author's schemas require. Runs of
 * other
 * workspaces use a separate budget, so that they cannot use up the author's (`docs/interface/limits.md#checks`).
 */
export const ownerOfChecks = (agent: AgentVersion, workspace: Workspace): TimeOwner =>
  agent.workspaceId === workspace.id ? workspace : { id: `${agent.workspaceId}#others`, slug: agent.orgSlug };

/** Returns a warning for each way in which the output does not match the agent's schema. */
export async function checkOutput(
  deps: CheckDeps,
  workspace: Workspace,
  agent: AgentVersion,
  { data = null, dataProblems }: Pick<EngineResult, 'data' | 'dataProblems'>,
): Promise<Warning[]> {
  const schema = agent.definition.output_schema;
  if (schema === null) return [];
  const problems = dataProblems ?? (await validateInRun(deps, ownerOfChecks(agent, workspace), schema, data));
  return problems.map(({ field, message }) => ({
    code: 'VALIDATION_SKIPPED',
    ...(field !== '' && { field }),
    message: `The output does not match the agent's output schema: ${message}`,
  }));
}
