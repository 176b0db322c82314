import type { TimeOwner } from '#core/accounts/limits/cpu-budget.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import { withMoment } from '#core/execution/input/scheduled-input.ts';
import { withDefaults } from '#core/manifest/json-schema/schema-defaults.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { validate } from '#core/manifest/worker-pool/checks.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Schedule } from '../schedule.ts';

/** Also the maximum length of a timeline message. */
const MAX_LENGTH = 1000;

/**
 * Returns why the agent of a schedule would reject its input, in at most one sentence. For webhooks, checks only the
 * stored members, because the request body supplies the others. Uses the check time of `workspace`. Never throws: a
 * failed check does not affect the schedule.
 */
export async function inputWarnings(
  deps: Pick<Deps, 'config' | 'main' | 'blobs' | 'clock' | 'ids' | 'log'>,
  workspace: TimeOwner,
  schedule: Schedule,
  agent?: AgentVersion,
): Promise<string[]> {
  const { type, input, timezone } = schedule;
  const moment = type === 'cron' ? { at: deps.clock.now(), timezone } : undefined;
  try {
    const version = agent ?? (await findAnyVersion(deps, schedule.agentId));
    const schema = version?.definition.input_schema ?? null;
    if (version === undefined || schema === null) return [];
    const found = await validate(deps, workspace, schema, withDefaults(schema, withMoment(version, moment, input)));
    const problems = type === 'webhook' ? found.filter(({ field }) => Object.hasOwn(input, memberOf(field))) : found;
    if (problems.length === 0) return [];
    const texts = problems.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));
    const subject = `input_data does not match the input schema of ${refOf(version)}, so its runs will fail`;
    return [`${subject}: ${texts.join('; ')}`.slice(0, MAX_LENGTH)];
  } catch (error) {
    deps.log.warn('the input of a schedule was not checked', { schedule_id: schedule.id, error: String(error) });
    return [];
  }
}

/** Converts `a.b[0]` to `a`. */
const memberOf = (field: string): string => field.split(/[.[]/, 1)[0]!;
