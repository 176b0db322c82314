import { engineTraits } from '#core/manifest/engines.ts';
import { placeholdersOf } from '#core/manifest/parsing/placeholders.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { momentView, type ScheduledMoment } from '#core/runs/run.ts';
import type { CallInput } from './call-input.ts';

/** Fills input members that a prompt's placeholders name and that were not sent with the moment of a scheduled run. */
export function withMoment(
  agent: AgentVersion,
  scheduled: ScheduledMoment | undefined,
  document: CallInput['document'],
): CallInput['document'] {
  if (scheduled === undefined || !engineTraits(agent).hasPlaceholders) return document;
  const asked = placeholdersOf(agent.definition.prompt ?? '');
  // Few prompts use the moment.
  if (!asked.some((name) => name.startsWith('scheduled_'))) return document;
  const members = Object.entries(momentView(scheduled)).filter(([name]) => asked.includes(name));
  return { ...Object.fromEntries(members), ...document };
}
