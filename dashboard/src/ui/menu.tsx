import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { Autocomplete, useFilter } from 'react-aria-components/Autocomplete';
import { Input } from 'react-aria-components/Input';
import { Menu as AriaMenu, MenuItem, MenuTrigger } from 'react-aria-components/Menu';
import { Popover } from 'react-aria-components/Popover';
import { TextField } from 'react-aria-components/TextField';
import { classes } from './classes.ts';

export interface MenuEntry {
  readonly id: string;
  readonly label: ReactNode;
  /** Text for search and screen readers if the label is not text. */
  readonly text?: string;
  readonly icon?: LucideIcon;
  readonly isDanger?: boolean;
  readonly isDisabled?: boolean;
  readonly run: () => void;
}

/** A menu opened by its child button. */
export function Menu({
  label,
  entries,
  searchLabel,
  children,
}: {
  readonly label: string;
  readonly entries: readonly MenuEntry[];
  /** Label of a field that filters the entries. @default - no such field */
  readonly searchLabel?: string;
  readonly children: ReactNode;
}) {
  const menu = (
    <AriaMenu aria-label={label} className="outline-none">
      {entries.map(({ id, label: content, text, icon: Icon, isDanger, isDisabled, run }) => (
        <MenuItem
          key={id}
          id={id}
          textValue={text ?? (typeof content === 'string' ? content : id)}
          isDisabled={isDisabled}
          onAction={run}
          className={classes(
            'flex cursor-default items-center gap-2 rounded-md px-2 py-1 outline-none data-[disabled]:opacity-50 data-[focused]:bg-hover',
            isDanger && 'text-bad',
          )}
        >
          {Icon && <Icon size={15} aria-hidden className="shrink-0" />}
          {content}
        </MenuItem>
      ))}
    </AriaMenu>
  );
  return (
    <MenuTrigger>
      {children}
      <Popover className="max-h-96 min-w-44 overflow-auto rounded-lg bg-raised p-1 shadow-raised">
        {searchLabel === undefined ? menu : <Searchable label={searchLabel}>{menu}</Searchable>}
      </Popover>
    </MenuTrigger>
  );
}

function Searchable({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  const { contains } = useFilter({ sensitivity: 'base' });
  return (
    <Autocomplete filter={contains}>
      <TextField aria-label={label} autoFocus className="mb-1 border-b border-line">
        <Input placeholder={label} className="h-8 w-full bg-transparent px-2 outline-none" />
      </TextField>
      {children}
    </Autocomplete>
  );
}
