import { Check, Copy } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button, IconButton, type Variant } from './button.tsx';
import { toast } from './toast.tsx';

/** Copies text and confirms it for two seconds. */
export function useCopy(): { readonly isCopied: boolean; copy(text: string | Promise<string>): void } {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (text: string | Promise<string>) => {
    Promise.resolve(text)
      .then((resolved) => navigator.clipboard.writeText(resolved))
      .then(
        () => setCopied(true),
        () => toast({ tone: 'bad', text: 'The browser blocked copying. Select the text and copy it.' }),
      );
  };
  return { isCopied, copy };
}

interface CopyProps {
  readonly text: string | (() => string | Promise<string>);
  /** @default "Copy" */
  readonly label?: string;
  readonly variant?: Variant;
}
const resolved = (text: CopyProps['text']): string | Promise<string> => (typeof text === 'string' ? text : text());

export function CopyButton({ text, label = 'Copy', variant }: CopyProps) {
  const { isCopied, copy } = useCopy();
  return (
    <Button variant={variant} icon={isCopied ? Check : Copy} onPress={() => copy(resolved(text))}>
      {isCopied ? 'Copied' : label}
    </Button>
  );
}

export function CopyIcon({ text, label = 'Copy' }: CopyProps) {
  const { isCopied, copy } = useCopy();
  return (
    <IconButton
      icon={isCopied ? Check : Copy}
      label={isCopied ? 'Copied' : label}
      onPress={() => copy(resolved(text))}
    />
  );
}
