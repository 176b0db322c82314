/** Says why and how a run began again, or continued, in the words of the command line and the dashboard. */

interface Interruption {
  /** The attempt that ended. */
  readonly attempt?: unknown;
  readonly begins_again?: unknown;
  /** For durable runs, and for runs that are tried again. */
  readonly reason?: unknown;
}

const REASONS: { readonly [reason: string]: string } = { host_lost: 'host lost', handover: 'handed over' };

/** Describes the progress record `resumed` of a run that continues, or is tried again. */
export function resumedText({ attempt, reason }: { readonly attempt?: unknown; readonly reason?: unknown }): string {
  if (reason === 'decision') return 'Decided: the run continues';
  if (reason === 'timeout') return 'The time has come: the run continues';
  if (reason === 'turn') return 'Its turn has come: the run continues';
  if (reason === 'retry') return `Failed: tried again (attempt ${Number(attempt)})`;
  const why = REASONS[String(reason)] ?? String(reason).replaceAll('_', ' ');
  return `Continued by another process (attempt ${Number(attempt)}): ${why}`;
}

/** Describes the event `interrupted` of a trace: of a run that continues or is tried again, or of a program whose sandbox was lost. */
export function interruptedText({ attempt, begins_again, reason }: Interruption): string {
  const next = Number(attempt) + 1;
  if (reason !== undefined) return resumedText({ attempt: next, reason });
  return begins_again === true ? `Sandbox lost: begun again (attempt ${next})` : 'Sandbox lost';
}
