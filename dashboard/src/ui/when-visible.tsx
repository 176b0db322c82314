import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Loading } from './loading.tsx';

const MARGIN = '0px 0px -160px 0px';

/** Shows its content, and with it sends its requests, once it is scrolled into view or the page is printed. */
export function WhenVisible({ children }: { readonly children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const show = () => setShown(true);
    // A section whose heading alone is in view can wait.
    const observer = new IntersectionObserver(([entry]) => entry!.isIntersecting && show(), { rootMargin: MARGIN });
    observer.observe(box.current!);
    addEventListener('beforeprint', show);
    return () => {
      observer.disconnect();
      removeEventListener('beforeprint', show);
    };
  }, []);
  // As high as a short section, so that a page does not show all sections at once.
  return isShown ? (
    children
  ) : (
    <div ref={box} className="min-h-48">
      <Loading />
    </div>
  );
}
