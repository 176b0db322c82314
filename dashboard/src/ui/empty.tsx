import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { COMMAND } from '../base.ts';
import { LinkButton } from './button.tsx';
import { CodeBlock } from './text/code.tsx';

/** Empty state: describes what would appear here, and the next step: a command, a link, or both. */
export function Empty({
  icon: Icon,
  title,
  command,
  action,
  children,
}: {
  readonly icon?: LucideIcon;
  readonly title: string;
  /** Command with the actual URL and names filled in. */
  readonly command?: string;
  /** {@link LinkButton} or button. */
  readonly action?: ReactNode;
  readonly children?: ReactNode;
}) {
  return (
    <div className="mx-auto flex w-full max-w-xl flex-col items-center gap-3 px-4 py-12 text-center">
      {Icon && <Icon size={28} aria-hidden className="text-soft" />}
      <p className="text-lg font-medium">{title}</p>
      {children && <div className="text-soft">{children}</div>}
      {command && (
        <div className="w-full text-left">
          <CodeBlock text={command} label="Copy command" />
        </div>
      )}
      {action}
    </div>
  );
}

/** Empty state of what calls fill: says how to run an agent of the workspace. */
export function NoCalls({
  icon,
  title,
  slug,
  children,
}: {
  readonly icon: LucideIcon;
  readonly title: string;
  readonly slug: string;
  readonly children: ReactNode;
}) {
  return (
    <Empty
      icon={icon}
      title={title}
      command={`${COMMAND} run ${slug}/AGENT`}
      action={
        <LinkButton to="/$workspace/agents" params={{ workspace: slug }}>
          Choose an agent
        </LinkButton>
      }
    >
      {children}
    </Empty>
  );
}

/** Empty state of a list whose filters exclude every row. `search` has what remains. */
export function NoMatch({
  icon,
  title = 'No results',
  search = {},
}: {
  readonly icon: LucideIcon;
  readonly title?: string;
  readonly search?: object;
}) {
  return (
    <Empty
      icon={icon}
      title={title}
      action={
        <LinkButton to="." search={search}>
          Clear filters
        </LinkButton>
      }
    />
  );
}
