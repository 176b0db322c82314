import { X } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { Dialog as AriaDialog } from 'react-aria-components/Dialog';
import { Heading } from 'react-aria-components/Heading';
import { Modal, ModalOverlay } from 'react-aria-components/Modal';
import { Button, IconButton } from './button.tsx';
import { ErrorBox } from './error-box.tsx';
import { TextField } from './field.tsx';

interface DialogProps {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Whether Esc and clicks outside are ignored, for content that is shown once. @default false */
  readonly isSticky?: boolean;
  /** @default "small" */
  readonly size?: 'small' | 'large';
  readonly children: ReactNode;
  /** Buttons at the bottom. */
  readonly actions?: ReactNode;
}

/** A modal dialog that traps the focus and restores it on close. */
export function Dialog({ title, isOpen, onClose, isSticky = false, size = 'small', children, actions }: DialogProps) {
  return (
    <ModalOverlay
      isOpen={isOpen}
      onOpenChange={(open) => open || onClose()}
      isDismissable={!isSticky}
      isKeyboardDismissDisabled={isSticky}
      className="fixed inset-0 z-40 flex items-start justify-center overflow-y-auto bg-scrim p-4 sm:pt-[12vh]"
    >
      <Modal
        className={`w-full ${size === 'large' ? 'max-w-3xl' : 'max-w-md'} rounded-xl bg-raised shadow-raised animate-[appear_.12s]`}
      >
        <AriaDialog className="flex flex-col gap-3 p-4 outline-none">
          <div className="flex items-start gap-2">
            <Heading slot="title" className="grow text-lg font-semibold">
              {title}
            </Heading>
            {!isSticky && <IconButton icon={X} label="Close" onPress={onClose} />}
          </div>
          {children}
          {actions && <div className="mt-1 flex flex-wrap justify-end gap-2">{actions}</div>}
          <FocusKept />
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

/** Moves the focus to the page if the previously focused element is gone, such as a deleted row. */
function FocusKept() {
  useEffect(
    () => () => {
      // The focus is restored in the next frame.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          if (document.activeElement === document.body) document.getElementById('page')?.focus({ preventScroll: true });
        }),
      );
    },
    [],
  );
  return null;
}

interface ConfirmProps {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Description of the consequences. */
  readonly children: ReactNode;
  /** Label of the button, such as "Delete agent". */
  readonly action: string;
  /** Closes the dialog when it resolves; a rejection is shown in the dialog. */
  readonly onConfirm: () => Promise<unknown>;
  /** Name that must be typed to confirm. @default - none */
  readonly typed?: string;
  readonly isDanger?: boolean;
}

/** Asks for confirmation of an irreversible action and describes its consequences. */
export function ConfirmDialog({
  title,
  isOpen,
  onClose,
  children,
  action,
  onConfirm,
  typed,
  isDanger = true,
}: ConfirmProps) {
  const [text, setText] = useState('');
  const [state, setState] = useState<{ readonly isPending?: boolean; readonly error?: unknown }>({});
  const close = () => {
    setText('');
    setState({});
    onClose();
  };
  const confirm = async () => {
    setState({ isPending: true });
    try {
      await onConfirm();
      close();
    } catch (error) {
      setState({ error });
    }
  };
  return (
    <Dialog
      title={title}
      isOpen={isOpen}
      onClose={close}
      actions={
        <>
          <Button onPress={close}>Keep it</Button>
          <Button
            variant={isDanger ? 'danger' : 'primary'}
            onPress={confirm}
            isPending={state.isPending}
            isDisabled={typed !== undefined && text !== typed}
          >
            {action}
          </Button>
        </>
      }
    >
      <div>{children}</div>
      {typed !== undefined && <TextField label={`Type "${typed}" to confirm`} value={text} onChange={setText} />}
      {state.error !== undefined && <ErrorBox error={state.error} />}
    </Dialog>
  );
}
