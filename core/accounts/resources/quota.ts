import { PlatformError } from '#core/base/errors.ts';
import type { Plan } from '#core/base/plans.ts';
import { countText, sizeText } from '#core/base/size-text.ts';

/** Usage of some limits of a plan. */
export type Use = { readonly [Name in keyof Plan]?: number };
/** Reads the usage of a workspace; higher wings add their own readers. */
export type UseReader = (workspaceId: string) => Promise<Use>;

/** Members of a plan that limit stored data. */
export type QuotaName = 'agent_bytes' | 'agent_versions' | 'session_bytes' | 'upload_bytes' | 'workspaces';

const DELETE_VERSIONS =
  'Delete versions that you do not need; they count until they are purged 30 days later. Or ask the operator for a larger plan.';
const QUOTAS: Record<QuotaName, { readonly holder: string; readonly what: string; readonly fix: string }> = {
  agent_bytes: {
    holder: 'The workspace',
    what: 'of definitions, bundles and dependencies of agents',
    fix: DELETE_VERSIONS,
  },
  agent_versions: { holder: 'The workspace', what: 'versions of agents', fix: DELETE_VERSIONS },
  session_bytes: {
    holder: 'The workspace',
    what: 'of messages in sessions',
    fix: 'Delete sessions that you do not need, or ask the operator for a larger plan. Sessions expire some time after their last message.',
  },
  upload_bytes: {
    holder: 'The workspace',
    what: 'of uploads that have not expired',
    fix: 'An upload form counts with its maximum size until it expires, an hour after POST /uploads.',
  },
  workspaces: {
    holder: 'You',
    what: 'workspaces that you created',
    fix: 'Use an existing workspace, or ask the operator for a larger plan of your personal workspace.',
  },
};

/**
 * Returns the error for exceeding a limit of the plan: STORAGE_QUOTA_EXCEEDED; DOCUMENT_TOO_LARGE for a single object
 * larger than the whole limit; RATE_LIMITED if waiting `waitSeconds` helps.
 */
export function quotaError(
  name: QuotaName,
  plan: Plan & { readonly name: string },
  { used, growth, waitSeconds }: { readonly used: number; readonly growth: number; readonly waitSeconds?: number },
): PlatformError {
  const { holder, what, fix: hint } = QUOTAS[name];
  const limit = plan[name]!;
  const shown = (amount: number) => (name.endsWith('_bytes') ? sizeText(amount) : countText(amount));
  const message = `${holder} ${holder === 'You' ? 'have' : 'has'} ${shown(used)} ${what}, this adds ${shown(growth)}, and the plan "${plan.name}" allows ${shown(limit)} (${name}).`;
  if (waitSeconds !== undefined) {
    return new PlatformError('RATE_LIMITED', message, { hint, suggested_wait_time: waitSeconds });
  }
  return new PlatformError(growth > limit ? 'DOCUMENT_TOO_LARGE' : 'STORAGE_QUOTA_EXCEEDED', message, { hint });
}
