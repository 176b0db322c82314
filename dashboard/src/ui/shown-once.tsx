import { type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { toast } from './toast.tsx';

/** Shows a secret that cannot be displayed again: the dialog closes only after it was copied, and Esc is ignored. */
export function ShownOnce({
  title,
  text,
  onClose,
  children,
}: {
  readonly title: string;
  readonly text: string;
  readonly onClose: () => void;
  /** Explanation of its use. */
  readonly children?: ReactNode;
}) {
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => {
        toast({ tone: 'bad', text: 'The browser blocked copying. Select the text and copy it.' });
        setCopied(true);
      },
    );
  return (
    <Dialog
      title={title}
      isOpen
      isSticky
      onClose={onClose}
      actions={
        <>
          <Button variant={isCopied ? 'plain' : 'primary'} onPress={copy} autoFocus>
            {isCopied ? 'Copied' : 'Copy'}
          </Button>
          <Button variant={isCopied ? 'primary' : 'plain'} onPress={onClose} isDisabled={!isCopied}>
            Done
          </Button>
        </>
      }
    >
      {children}
      <p>Copy it now: it is not shown again.</p>
      <code className="block rounded-md border border-line bg-panel p-2 text-xs break-all select-all">{text}</code>
    </Dialog>
  );
}
