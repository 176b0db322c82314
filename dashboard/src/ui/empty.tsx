import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { CodeBlock } from './text/code.tsx';

/** Empty state: describes what would appear here, and the command that creates it. */
export function Empty({
  icon: Icon,
  title,
  command,
  children,
}: {
  readonly icon?: LucideIcon;
  readonly title: string;
  /** Command with the actual URL and names filled in. */
  readonly command?: string;
  readonly children?: ReactNode;
}) {
  return (
    <div className="mx-auto flex w-full max-w-xl flex-col items-center gap-3 px-4 py-12 text-center">
      {Icon && <Icon size={28} aria-hidden className="text-soft" />}
      <p className="text-lg font-medium">{title}</p>
      {children && <div className="text-soft">{children}</div>}
      {command && (
        <div className="w-full text-left">
          <CodeBlock text={command} label="Copy the command" />
        </div>
      )}
    </div>
  );
}
