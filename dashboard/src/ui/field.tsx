import { Check, ChevronDown } from 'lucide-react';
import type { ReactNode } from 'react';
import { Button } from 'react-aria-components/Button';
import { FieldError } from 'react-aria-components/FieldError';
import { Input } from 'react-aria-components/Input';
import { Label } from 'react-aria-components/Label';
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox';
import { Popover } from 'react-aria-components/Popover';
import { Select as AriaSelect, SelectValue } from 'react-aria-components/Select';
import { Text } from 'react-aria-components/Text';
import { TextArea } from 'react-aria-components/TextArea';
import { TextField as AriaTextField, type TextFieldProps as AriaTextFieldProps } from 'react-aria-components/TextField';
import { classes } from './classes.ts';

export const INPUT_CLASS =
  'w-full rounded-md border border-edge bg-ground px-2.5 py-1.5 text-text data-[invalid]:border-bad disabled:opacity-60';
export const LABEL_CLASS = 'font-medium';

interface FieldTexts {
  readonly label: string;
  /** Whether the label is for screen readers only. @default false */
  readonly isLabelHidden?: boolean;
  readonly description?: ReactNode;
  /** Validation error. */
  readonly error?: string;
}

export interface TextFieldProps extends FieldTexts, Omit<AriaTextFieldProps, 'children' | 'className' | 'isInvalid'> {
  readonly placeholder?: string;
  /** Number of lines of a multi-line field. @default - one line */
  readonly lines?: number;
  readonly isMono?: boolean;
  readonly icon?: ReactNode;
}

export function TextField({
  label,
  isLabelHidden,
  description,
  error,
  placeholder,
  lines,
  isMono,
  icon,
  ...rest
}: TextFieldProps) {
  const input = classes(INPUT_CLASS, isMono && 'font-mono text-xs', icon !== undefined && 'pl-8');
  return (
    <AriaTextField
      {...rest}
      aria-label={isLabelHidden ? label : undefined}
      isInvalid={error !== undefined}
      className="flex min-w-0 flex-col gap-1"
    >
      {!isLabelHidden && <Label className={LABEL_CLASS}>{label}</Label>}
      <div className="relative">
        {icon && <span className="pointer-events-none absolute top-2 left-2.5 text-soft">{icon}</span>}
        {lines === undefined ? (
          <Input className={classes(input, 'h-8')} placeholder={placeholder} />
        ) : (
          <TextArea className={input} placeholder={placeholder} rows={lines} />
        )}
      </div>
      {description && (
        <Text slot="description" className="text-xs text-soft">
          {description}
        </Text>
      )}
      <FieldError className="text-xs text-bad">{error}</FieldError>
    </AriaTextField>
  );
}

export interface Choice {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
}

export function Select({
  label,
  isLabelHidden,
  description,
  choices,
  value,
  onChange,
}: FieldTexts & {
  readonly choices: readonly Choice[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  return (
    <AriaSelect
      aria-label={isLabelHidden ? label : undefined}
      value={value}
      onChange={(key) => onChange(String(key))}
      className="flex min-w-0 flex-col gap-1"
    >
      {!isLabelHidden && <Label className={LABEL_CLASS}>{label}</Label>}
      <Button className="flex h-8 w-full items-center gap-2 rounded-md border border-edge bg-ground px-2.5 text-left">
        <SelectValue className="grow truncate data-[placeholder]:text-soft">
          {({ selectedText }) => selectedText}
        </SelectValue>
        <ChevronDown size={14} aria-hidden className="shrink-0 text-soft" />
      </Button>
      {description && (
        <Text slot="description" className="text-xs text-soft">
          {description}
        </Text>
      )}
      <Popover className="max-h-80 min-w-(--trigger-width) overflow-auto rounded-lg bg-raised p-1 shadow-raised">
        <ListBox items={choices} className="outline-none">
          {(choice) => (
            <ListBoxItem
              textValue={choice.label}
              className="flex items-start gap-2 rounded-md px-2 py-1 outline-none data-[focused]:bg-hover"
            >
              {({ isSelected }) => (
                <>
                  <Check size={14} aria-hidden className={classes('mt-0.5 shrink-0', !isSelected && 'invisible')} />
                  <span className="min-w-0">
                    <Text slot="label">{choice.label}</Text>
                    {choice.description && (
                      <Text slot="description" className="block text-xs text-soft">
                        {choice.description}
                      </Text>
                    )}
                  </span>
                </>
              )}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

/** Rendered natively for speed, because long lists have one in each row. */
export function Checkbox({
  children,
  value,
  onChange,
  isDisabled = false,
}: {
  readonly children: ReactNode;
  readonly value: boolean;
  readonly onChange: (value: boolean) => void;
  readonly isDisabled?: boolean;
}) {
  return (
    <label className={classes('flex items-center gap-2', isDisabled && 'opacity-50')}>
      <input
        type="checkbox"
        checked={value}
        onChange={(event) => onChange(event.target.checked)}
        disabled={isDisabled}
        className={CHECKBOX_CLASS}
      />
      <span>{children}</span>
    </label>
  );
}

const CHECKBOX_CLASS = classes(
  'flex size-4 shrink-0 appearance-none items-center justify-center rounded border border-edge bg-ground checked:border-accent checked:bg-accent',
  'before:size-2.5 before:bg-on-accent before:opacity-0 checked:before:opacity-100',
  'before:[clip-path:polygon(14%_44%,0_65%,45%_100%,100%_16%,80%_0,43%_62%)]',
  // With forced colours, the native checkbox is visible instead.
  'forced-colors:appearance-auto forced-colors:before:hidden',
);
