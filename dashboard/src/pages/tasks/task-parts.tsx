import { CalendarClock } from 'lucide-react';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { classes } from '../../ui/classes.ts';
import { Badge, type Tone } from '../../ui/data/status.tsx';
import { Link } from '../../ui/link.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { isOverdue, type Priority, type Task } from './task.ts';

const TONES: Readonly<Record<Priority, Tone>> = { urgent: 'bad', high: 'warn', normal: 'plain', low: 'plain' };

export const PriorityBadge = ({ value }: { readonly value: Priority }) => <Badge tone={TONES[value]}>{value}</Badge>;

export function DueDate({ task }: { readonly task: Task }) {
  const isDue = task.due_date !== null;
  const { data: org } = useOperation('getOrg', {}, { staleTime: 60_000, enabled: isDue });
  if (!isDue) return null;
  const isLate = isOverdue(task, org?.timezone ?? 'UTC');
  return (
    <span className={classes('inline-flex items-center gap-1 whitespace-nowrap', isLate ? 'text-bad' : 'text-soft')}>
      <CalendarClock size={13} aria-hidden />
      {task.due_date}
      {isLate && ' overdue'}
    </span>
  );
}

/** Creator of a task: a user's address, or an agent's name with a link to its runs. */
export function Creator({ name }: { readonly name: string | null }) {
  const { slug } = useWorkspace();
  if (name === null) return null;
  if (name.includes('@')) return <span className="text-soft">{escapeText(name)}</span>;
  return (
    <span className="relative z-10">
      <Link to="/$workspace/runs" params={{ workspace: slug }} search={{ agent: name }}>
        {escapeText(name)}
      </Link>
    </span>
  );
}
