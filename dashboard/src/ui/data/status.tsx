import {
  Ban,
  CircleAlert,
  CircleCheck,
  CircleDashed,
  CircleDot,
  CirclePause,
  CircleQuestionMark,
  CircleX,
  Clock,
  Info,
  LoaderCircle,
  type LucideIcon,
  TrendingDown,
} from 'lucide-react';
import { classes } from '../classes.ts';

export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'plain';

const TONES: Readonly<Record<Tone, string>> = {
  good: 'text-good bg-good-ground',
  bad: 'text-bad bg-bad-ground',
  warn: 'text-warn bg-warn-ground',
  info: 'text-info bg-info-ground',
  plain: 'text-soft bg-hover',
};

/** Maps API values to labels; unknown values are shown unchanged. */
const KNOWN: Readonly<Record<string, readonly [word: string, tone: Tone, icon: LucideIcon]>> = {
  queued: ['Queued', 'plain', Clock],
  pending: ['Pending', 'plain', Clock],
  running: ['Running', 'info', LoaderCircle],
  waiting: ['Waiting', 'warn', CirclePause],
  approved: ['Approved', 'good', CircleCheck],
  answered: ['Answered', 'good', CircleCheck],
  denied: ['Refused', 'bad', Ban],
  expired: ['Expired', 'plain', Clock],
  completed: ['Completed', 'good', CircleCheck],
  failed: ['Failed', 'bad', CircleX],
  timeout: ['Timed out', 'bad', Clock],
  timed_out: ['Timed out', 'bad', Clock],
  cancelled: ['Cancelled', 'warn', Ban],
  cancelling: ['Cancelling', 'warn', Ban],
  skipped: ['Skipped', 'plain', CircleDashed],
  missed: ['Missed', 'warn', CircleAlert],
  enabled: ['On', 'good', CircleDot],
  disabled: ['Off', 'plain', CirclePause],
  auto_disabled: ['Disabled', 'bad', CircleAlert],
  ended: ['Ended', 'plain', CircleCheck],
  deploying: ['Deploying', 'info', LoaderCircle],
  operational: ['Operational', 'good', CircleCheck],
  outage: ['Outage', 'bad', CircleX],
  healthy: ['Healthy', 'good', CircleCheck],
  degraded: ['Degraded', 'warn', CircleAlert],
  unhealthy: ['Unhealthy', 'bad', CircleAlert],
  provisioning: ['Starting', 'info', LoaderCircle],
  serving: ['Running', 'good', CircleDot],
  paused: ['Paused', 'plain', CirclePause],
  deleting: ['Deleting', 'plain', LoaderCircle],
  crash_loop: ['Crashing', 'bad', CircleAlert],
  stopped: ['Stopped', 'plain', CirclePause],
  open: ['Open', 'info', CircleDashed],
  in_progress: ['In progress', 'warn', CircleDot],
  done: ['Done', 'good', CircleCheck],
  info: ['Info', 'info', Info],
  success: ['Success', 'good', CircleCheck],
  warning: ['Warning', 'warn', CircleAlert],
  error: ['Error', 'bad', CircleX],
  passed: ['Passed', 'good', CircleCheck],
  regressed: ['Regressed', 'bad', TrendingDown],
  inconclusive: ['Inconclusive', 'warn', CircleQuestionMark],
  aborted: ['Aborted', 'plain', Ban],
  deprecated: ['Deprecated', 'warn', CircleAlert],
};

/** A status as icon, label and colour, so that none of them is the only signal. */
export function Status({ value }: { readonly value: string }) {
  const [word, tone, Icon] = KNOWN[value] ?? [value.replaceAll('_', ' '), 'plain', CircleDot];
  const turns = Icon === LoaderCircle;
  return (
    <Badge tone={tone}>
      <Icon size={13} aria-hidden className={classes('shrink-0', turns && 'animate-spin [animation-duration:2s]')} />
      {word}
    </Badge>
  );
}

/** A short label with a background. */
export function Badge({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: React.ReactNode }) {
  return (
    <span
      className={classes(
        'inline-flex h-5 items-center gap-1 rounded px-1.5 text-xs font-medium whitespace-nowrap',
        TONES[tone],
      )}
    >
      {children}
    </span>
  );
}
