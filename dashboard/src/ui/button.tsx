import { Link as RouterLink } from '@tanstack/react-router';
import { LoaderCircle, type LucideIcon } from 'lucide-react';
import type { ComponentProps, ReactNode } from 'react';
import { Button as AriaButton, type ButtonProps as AriaButtonProps } from 'react-aria-components/Button';
import { classes } from './classes.ts';
import { Tooltip } from './tooltip.tsx';

export type Variant = 'primary' | 'plain' | 'quiet' | 'danger';

const VARIANTS: Readonly<Record<Variant, string>> = {
  primary: 'bg-accent text-on-accent border-transparent hover:opacity-90',
  plain: 'bg-raised text-text border-line hover:bg-hover',
  quiet: 'bg-transparent text-text border-transparent hover:bg-hover',
  danger: 'bg-raised text-bad border-line hover:bg-bad-ground',
};

export const buttonClass = (variant: Variant = 'plain', isIcon = false): string =>
  classes(
    'inline-flex h-8 shrink-0 select-none items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap no-underline transition-colors',
    'disabled:opacity-50 disabled:pointer-events-none aria-disabled:opacity-50',
    isIcon ? 'w-8' : 'px-3',
    VARIANTS[variant],
  );

export interface ButtonProps extends Omit<AriaButtonProps, 'className' | 'children'> {
  readonly variant?: Variant;
  readonly icon?: LucideIcon;
  readonly children: ReactNode;
}

/** A button with a text label. `isPending` preserves its width and focus. */
export function Button({ variant, icon: Icon, children, ...rest }: ButtonProps) {
  return (
    <AriaButton {...rest} className={buttonClass(variant)}>
      {rest.isPending ? (
        <LoaderCircle size={15} aria-hidden className="animate-spin" />
      ) : (
        Icon && <Icon size={15} aria-hidden />
      )}
      {children}
    </AriaButton>
  );
}

/** An icon button; `label` is its accessible name and tooltip. */
export function IconButton({
  label,
  icon: Icon,
  variant = 'quiet',
  ...rest
}: Omit<ButtonProps, 'children' | 'icon'> & { readonly label: string; readonly icon: LucideIcon }) {
  return (
    <Tooltip text={label}>
      <AriaButton {...rest} aria-label={label} className={buttonClass(variant, true)}>
        <Icon size={16} aria-hidden />
      </AriaButton>
    </Tooltip>
  );
}

/** A link styled as a button. */
export function LinkButton({
  variant,
  icon: Icon,
  children,
  ...rest
}: Omit<ComponentProps<typeof RouterLink>, 'children' | 'className' | 'params' | 'search'> & {
  readonly params?: object;
  readonly search?: object;
  readonly variant?: Variant;
  readonly icon?: LucideIcon;
  readonly children: ReactNode;
}) {
  return (
    // biome-ignore lint/suspicious/noExplicitAny: addresses of all pages.
    <RouterLink {...(rest as any)} className={buttonClass(variant)}>
      {Icon && <Icon size={15} aria-hidden />}
      {children}
    </RouterLink>
  );
}
