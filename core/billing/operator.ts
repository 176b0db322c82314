import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import { findWorkspaceIdBySlug } from '#core/accounts/workspaces/store.ts';
import { PLAN_NAMES, type PlanName } from '#core/base/plans.ts';
import type { Deps } from '#core/ports/deps.ts';
import { grantCredits } from './credits/ledger.ts';

/** Changes that the platform's operator makes to a workspace, with access to the tables. There are no routes for them. */
type OperatorDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>;

/**
 * Sets the plan of a workspace, in its record and in the copies of it. Returns false if there is no such workspace. Run it
 * again if a member or key was added at the same time: their copy may have the old plan.
 */
export async function setPlan(deps: Pick<Deps, 'main'>, workspaceId: string, plan: PlanName): Promise<boolean> {
  return (await changeWorkspace(deps, workspaceId, { plan })) !== undefined;
}

/** Sets a plan given as `acme=pro`. Returns the new setting as a sentence; throws an error that explains a wrong text. */
export async function setPlanOf(deps: OperatorDeps, text: string): Promise<string> {
  const { slug, value, workspaceId } = await parseSetting(deps, text);
  const plan = PLAN_NAMES.find((name) => name === value);
  if (plan === undefined) throw new Error(`There is no plan "${value}", only ${PLAN_NAMES.join(', ')}.`);
  await setPlan(deps, workspaceId, plan);
  return `The workspace "${slug}" has the plan "${plan}".`;
}

/** Adds credits given in cents as `acme=500`. Returns and throws like {@link setPlanOf}. */
export async function grantCreditsTo(deps: OperatorDeps, text: string): Promise<string> {
  const { slug, value, workspaceId } = await parseSetting(deps, text);
  const added = { cents: Number(value), description: 'Added by the operator' };
  const { cents, debtCents } = await grantCredits(deps, workspaceId, added);
  return `The workspace "${slug}" ${debtCents > 0 ? `still owes ${debtCents}` : `has ${cents}`} cents.`;
}

async function parseSetting(deps: OperatorDeps, text: string) {
  const [, slug, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (slug === undefined || value === undefined) throw new Error(`"${text}" must be a slug, "=" and a value.`);
  const workspaceId = await findWorkspaceIdBySlug(deps, slug);
  if (workspaceId === undefined) throw new Error(`There is no workspace "${slug}".`);
  return { slug, value, workspaceId };
}
