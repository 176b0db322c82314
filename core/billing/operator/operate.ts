import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import { findWorkspace, findWorkspaceIdBySlug } from '#core/accounts/workspaces/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import { PLAN_NAMES, type PlanName } from '#core/base/plans.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Deps } from '#core/ports/deps.ts';
import { grantCredits } from '../credits/ledger.ts';

/**
 * Changes by the platform's operator to a workspace, made over the API (`handlers.ts`) or by commands with access to
 * the
 * tables.
 */
type OperatorDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>;

/** Finds the workspace with this id or slug. Throws NOT_FOUND. */
export async function findNamed(deps: Pick<Deps, 'main'>, name: string): Promise<Workspace> {
  // Ids take precedence over slugs, which may look like ids.
  const byId = await findWorkspace(deps, name);
  if (byId !== undefined) return byId;
  const id = await findWorkspaceIdBySlug(deps, name);
  const found = id === undefined ? undefined : await findWorkspace(deps, id);
  if (found === undefined) throw new PlatformError('NOT_FOUND', `There is no workspace "${name.slice(0, 100)}".`);
  return found;
}

/**
 * Sets the plan of a workspace, in its record and its copies. Returns `undefined` if the workspace does not exist. Call
 * it
 * again if a member or key was added at the same time: their copy may have the old plan.
 */
export const setPlan = (
  deps: Pick<Deps, 'main'>,
  workspaceId: string,
  plan: PlanName,
): Promise<Workspace | undefined> => changeWorkspace(deps, workspaceId, { plan });

/**
 * Sets a plan given as `acme=pro`. Returns the new setting as a sentence; throws an error that explains an invalid
 * text.
 */
export async function setPlanOf(deps: OperatorDeps, text: string): Promise<string> {
  const { value, workspace } = await parseSetting(deps, text);
  const plan = PLAN_NAMES.find((name) => name === value);
  if (plan === undefined) throw new Error(`There is no plan "${value}", only ${PLAN_NAMES.join(', ')}.`);
  await setPlan(deps, workspace.id, plan);
  return `The workspace "${workspace.slug}" has the plan "${plan}".`;
}

/** Adds credits given in cents as `acme=500`. Returns and throws like {@link setPlanOf}. */
export async function grantCreditsTo(deps: OperatorDeps, text: string): Promise<string> {
  const { value, workspace } = await parseSetting(deps, text);
  const grant = { id: deps.ids.uuid(), cents: Number(value), description: ADDED };
  const { balance } = await grantCredits(deps, workspace.id, grant);
  const { cents, debtCents } = balance;
  return `The workspace "${workspace.slug}" ${debtCents > 0 ? `still owes ${debtCents}` : `has ${cents}`} cents.`;
}

/** Default description of added credits in transactions. */
export const ADDED = 'Added by the operator';

async function parseSetting(deps: OperatorDeps, text: string) {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new Error(`"${text}" must be a slug, "=" and a value.`);
  return { value, workspace: await findNamed(deps, name) };
}
