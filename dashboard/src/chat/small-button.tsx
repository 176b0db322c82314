import { Check, Copy, type LucideIcon } from 'lucide-react';
import { buttonClass } from '../ui/button.tsx';
import { useCopy } from '../ui/copy.tsx';

const CLASS = buttonClass('quiet', true);

/** An icon button without the parts of a tooltip, of which a long chat would have hundreds. */
export function SmallButton({
  icon: Icon,
  label,
  onPress,
}: {
  readonly icon: LucideIcon;
  readonly label: string;
  readonly onPress: () => void;
}) {
  return (
    <button type="button" aria-label={label} title={label} onClick={onPress} className={CLASS}>
      <Icon size={16} aria-hidden />
    </button>
  );
}

/** Copies a text, and confirms it. */
export function SmallCopy({ text, label }: { readonly text: string; readonly label: string }) {
  const { isCopied, copy } = useCopy();
  return <SmallButton icon={isCopied ? Check : Copy} label={isCopied ? 'Copied' : label} onPress={() => copy(text)} />;
}
