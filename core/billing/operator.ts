import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import { findWorkspaceIdBySlug } from '#core/accounts/workspaces/store.ts';
import { PLAN_NAMES, type PlanName } from '#core/base/plans.ts';
import type { Deps } from '#core/ports/deps.ts';
import { topUp } from './credits/ledger.ts';

/** What whoever runs the platform says about a workspace, with access to the tables themselves. No route leads here. */
type OperatorDeps = Pick<Deps, 'main' | 'runs' | 'clock' | 'ids'>;

/**
 * Gives a workspace a plan, in its record and wherever a copy of it lies. False when there is no such workspace. What is
 * added to it at the same moment may keep the old plan: then say it again.
 */
export async function setPlan(deps: Pick<Deps, 'main'>, workspaceId: string, plan: PlanName): Promise<boolean> {
  return (await changeWorkspace(deps, workspaceId, { plan })) !== undefined;
}

/** Does what `acme=pro` says. Answers what is so now, and throws what is wrong with the text. */
export async function setPlanOf(deps: OperatorDeps, text: string): Promise<string> {
  const { slug, value, workspaceId } = await read(deps, text);
  const plan = PLAN_NAMES.find((name) => name === value);
  if (plan === undefined) throw new Error(`There is no plan "${value}", only ${PLAN_NAMES.join(', ')}.`);
  await setPlan(deps, workspaceId, plan);
  return `The workspace "${slug}" has the plan "${plan}".`;
}

/** Does what `acme=500`, in cents, says. As {@link setPlanOf}. */
export async function grantCreditsTo(deps: OperatorDeps, text: string): Promise<string> {
  const { slug, value, workspaceId } = await read(deps, text);
  const balance = await topUp(deps, workspaceId, { cents: Number(value), description: 'Added by the operator' });
  return `The workspace "${slug}" has ${balance} cents.`;
}

async function read(deps: OperatorDeps, text: string) {
  const [, slug, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (slug === undefined || value === undefined) throw new Error(`"${text}" must be a slug, "=" and a value.`);
  const workspaceId = await findWorkspaceIdBySlug(deps, slug);
  if (workspaceId === undefined) throw new Error(`There is no workspace "${slug}".`);
  return { slug, value, workspaceId };
}
