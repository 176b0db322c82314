import { type ReactNode, useState } from 'react';
import { classes } from './classes.ts';

/** An area that takes dropped files. What is in it must offer the same by keyboard. */
export function DropZone({
  className,
  onFiles,
  children,
}: {
  readonly className: string;
  readonly onFiles: (transfer: DataTransfer) => void;
  readonly children: ReactNode;
}) {
  const [isOver, setOver] = useState(false);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: what is in it offers the same by keyboard.
    <div
      data-drop
      className={classes(className, isOver && 'outline-2 outline-accent outline-dashed')}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes('Files')) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        onFiles(event.dataTransfer);
      }}
    >
      {children}
    </div>
  );
}
