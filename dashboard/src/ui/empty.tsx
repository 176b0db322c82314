import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { CodeBlock } from './text/code.tsx';

/** Where nothing is yet: says what would be here, and the one command that makes it so. */
export function Empty({
  icon: Icon,
  title,
  command,
  children,
}: {
  readonly icon?: LucideIcon;
  readonly title: string;
  /** A command with the real address and names filled in. */
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
